#!/bin/bash
set -euo pipefail
python3 -m venv /opt/vllm
/opt/vllm/bin/pip install 'vllm==0.33.0' 'cuda-python>=13'
cat > /etc/systemd/system/vllm.service <<'EOF'
[Unit]
Description=vLLM
StartLimitIntervalSec=1h
StartLimitBurst=3

[Service]
User=llm
ExecStart=/opt/vllm/bin/vllm serve /srv/models/m --gpu-memory-utilization 0.8
Restart=on-failure
RestartSec=60

[Install]
WantedBy=multi-user.target
EOF
systemctl daemon-reload
systemctl enable --now vllm.service
