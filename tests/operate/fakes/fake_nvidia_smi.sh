#!/bin/sh
# A stand-in for nvidia-smi on a machine without a GPU; /opt/fake/nvidia-smi.case says what is wrong.
# Texts as nvidia-smi 580 prints them (NVIDIA/dgx-spark-playbooks; pando85/homelab#4110).
case "$(cat /opt/fake/nvidia-smi.case)" in
mismatch)
    echo "Failed to initialize NVML: Driver/library version mismatch"
    exit 18
    ;;
hot)
    [ "$1" = -q ] || exit 0
    echo "    Clocks Event Reasons"
    echo "        Idle                              : Not Active"
    echo "        SW Power Cap                      : Active"
    echo "        HW Thermal Slowdown               : Not Active"
    ;;
esac
