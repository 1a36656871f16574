#!/bin/sh
# Install what this project needs on a Debian or Ubuntu computer: the packages that the lab boots
# machines with, and the Python environment .venv. Safe to run again: what is there is left alone.
#   scripts/setup.sh            everything (installing packages needs root or sudo)
#   scripts/setup.sh --venv     the Python environment only
set -eu
cd "$(dirname "$0")/.."

# systemd-container: boots the machines; mmdebstrap: makes their root; iproute2: their network;
# apt-utils, gpg, dpkg-dev: the lab's signed package archives; zstd: unpacks the vocabulary;
# python3-venv: .venv; shellcheck: lint; make: the README's commands; faketime: a laptop whose
# clock is wrong, in a test.
PACKAGES="systemd-container mmdebstrap debian-archive-keyring iproute2 rsync openssh-client
apt-utils gpg dpkg-dev git zstd shellcheck make python3-venv ca-certificates
faketime"

say() {
    echo "setup: $*"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        say "not root and no sudo: run as root: $*" >&2
        exit 1
    fi
}

lacking() {
    for package in $PACKAGES; do
        state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) ||
            state=absent
        [ "$state" = installed ] || printf ' %s' "$package"
    done
}

install_packages() {
    if ! command -v apt-get >/dev/null; then
        say "no apt-get here: the lab needs Debian or Ubuntu; with --venv only .venv is made" >&2
        exit 1
    fi
    missing=$(lacking)
    if [ -z "$missing" ]; then
        say "all packages are there"
        return
    fi
    say "installing packages:$missing"
    as_root apt-get update -qq
    # A list of words on purpose.
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -yqq --no-install-recommends \
        $missing >/dev/null
}

find_python() {
    for name in python3.13 python3.12 python3.11 python3; do
        if command -v "$name" >/dev/null &&
            "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
                2>/dev/null; then
            echo "$name"
            return
        fi
    done
    say "no Python >= 3.11 with venv here: install one" >&2
    exit 1
}

make_venv() {
    stamp=.venv/sparkwright-setup
    if [ -x .venv/bin/python ] && cmp -s pyproject.toml "$stamp"; then
        say ".venv is up to date"
        return
    fi
    python=$(find_python)
    if [ ! -x .venv/bin/pip ]; then
        say "making .venv with $("$python" --version)"
        "$python" -m venv .venv
    fi
    say "installing sparkwright and its development tools into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
    cp pyproject.toml "$stamp"
}

case "${1:-}" in
--venv) make_venv ;;
"")
    install_packages
    make_venv
    ;;
*)
    say "unknown argument $1; known: --venv" >&2
    exit 2
    ;;
esac
say "done"
