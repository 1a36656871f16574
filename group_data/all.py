"""Every default. sparks.yaml (`settings`), --data and your own group data say only what differs.

Ordered by who must read it: first what one may well change, then what seldom needs a change.
"""

from sparkwright.ssh_transport import transport

# --- What the servers offer ---------------------------------------------------------------
# Loopback by default: nobody outside the machine can ask. To serve the network, set an address
# (or 0.0.0.0) together with api_key.
listen = "127.0.0.1"
# none: only with a loopback `listen`. generate: a random key is made once on the machine in
# {etc_dir}/api-key. open: serve the network without a key, said on purpose.
api_key = "none"
# fast: weights are compared by size, mtime and inode with the last full hash (milliseconds).
# deep: every byte is hashed again in this run.
verify = "fast"
# Memory that recipes may not claim: the system, the desktop and the page tables, GiB.
# 8 GiB are to stay free by sizing and 2-4 GiB is the floor of watchdogs (sparkrun, field reports).
memory_reserve_gib = 12

# --- The machines ---------------------------------------------------------------------------
arch = "aarch64"  # as `uname -m` says; a DGX Spark is aarch64
os_releases = ["ubuntu 24.04"]  # ID and VERSION_ID of /etc/os-release; DGX OS 7 says this
gpu_required = True  # False: for a machine without a GPU, such as one of the lab
gpu_compute_capability = "12.1"  # GB10, as nvidia-smi says
gpu_driver_min = 580  # CUDA 13.x needs driver 580 or newer (NVIDIA's CUDA release notes)
# Cap of the GPU's clock, MHz, set at every boot; 0: none. Against hard power-offs people set 2100
# to 2400 (eugr/spark-vllm-docker: 2150); field reports say that it costs 15-35 % of decode.
gpu_clock_max_mhz = 0
cuda_required = True  # False: no toolkit is looked for (llama_cpp_backend = "cpu")
cuda_version_min = "13.0"  # what DGX OS ships, and what the lock would install
clock_offset_max_s = 60  # apt refuses a Release file from the future; TLS fails as well
memory_bandwidth = 273  # GB/s, NVIDIA's data sheet of DGX Spark; `sparkwright bench` compares
min_free_gib = 10  # free space wanted beside what the recipes still need to fetch

# --- Where things live on a machine -----------------------------------------------------------
prefix = "/opt/sparkwright"  # software: builds and the Hub client
data_dir = "/srv/sparkwright"  # weights, vocabulary, caches: the large file system
etc_dir = "/etc/sparkwright"  # the API key
service_user = "llm"  # runs the servers, builds and downloads; it has no login

# --- llama.cpp -----------------------------------------------------------------------------------
llama_cpp_backend = "cuda"  # cuda, or cpu for a machine without a GPU
# GB10 is compute capability 12.1; cmake rewrites 121 to 121a, which the FP4 kernels need.
llama_cpp_cuda_architectures = "121"
llama_cpp_cmake_flags: list[str] = []  # appended to ours; a change rebuilds
llama_cpp_build_env: dict[str, str] = {}  # environment of cmake and the compiler (CCACHE_DIR)
llama_cpp_build_jobs = 0  # 0: one per core
llama_cpp_keep = 2  # the one in use and the one before it

# --- vLLM and containers --------------------------------------------------------------------------
# The venv of recipes that name none: an artifact vllm-<profile> of the lock (docs/recipes.md).
vllm_profile = "eugr"
vllm_keep = 2  # venvs of a profile: the one in use and the one before it
# How a container gets the GPU: cdi, gpus (docker run --gpus), none, or auto: as the machine has it.
container_gpus = "auto"

# --- Packages and weights ------------------------------------------------------------------------
packages_extra: list[str] = []  # more packages, from the machine's own apt sources
weights_stall_s = 300  # no new byte for this long: the transfer is killed and tried without xet
weights_adopt_dirs: list[str] = []  # directories with files from earlier hand downloads
weights_pinned: list[str] = []  # repositories, or repository@commit, that no prune removes
# Machines copy weights, builds and venvs from one another, so that each enters the site once.
spread = True
spread_port = 8473  # of the address that the fleet file names, open only while something is given
ollama_url = "http://127.0.0.1:11434"  # asked to unload its models before a start

# --- Several sparks -----------------------------------------------------------------------------
fabric_speed_mbps = 200000  # of each half's link (NVIDIA's playbook); 0: any will do
# How long a change of the fabric's network waits for a fresh login before the machine takes it
# back; netplan's own `netplan try` waits 120 s (netplan-try(8)), our laptop logs in by itself.
fabric_confirm_s = 60
# GB/s over both halves that `sparkwright verify --bandwidth` wants: NVIDIA's bar for two Sparks
# (spark_cluster_setup).
fabric_pass_gb_s = 21.875
# Of a cluster's versions (driver, kernel, python, torch, vllm, ray) those that may differ.
cluster_may_differ: list[str] = []

# --- pyinfra -------------------------------------------------------------------------------------
_sudo = True  # every command; sparks.yaml may name a password (sudo)
# TCP_NODELAY and keepalive: sparkwright/ssh_transport.py.
ssh_paramiko_connect_kwargs = {"transport_factory": transport}
lock_file = "artifacts.lock.yaml"  # sparks.yaml says it as artifacts: {lock: ...}
artifacts_from = "upstream"  # sparks.yaml says it as artifacts: {from: ...}; mirror or bundle
artifacts_url = ""  # of a mirror: artifacts: {url: ...}
artifacts_path = ""  # of a bundle on the laptop: artifacts: {path: ...}
artifacts_library = ""  # mounted directory with weights: artifacts: {library: ...}
artifacts_library_copy = False  # copy them from there: artifacts: {library_copy: true}
artifacts_key = ""  # bundle-key.asc beside sparks.yaml
recipe_dirs = ["recipes"]  # sparks.yaml says it as recipes: [...]
serve: list[object] = []  # what a machine serves: names, or maps as in sparks.yaml
peers: list[object] = []  # the fleet's other machines, for pages that show their models
cluster: dict[str, object] = {}  # sparks.yaml says it as clusters: {...} at the top
rollout_batch = 1  # sparks.yaml says it as rollout: {batch: N} at the top
