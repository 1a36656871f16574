"""What apt may do: texts in the shape of `apt-get -s install`, and the program with a fake apt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.machine_case import program

APT = program("apt_install")
HEAD = """NOTE: This is only a simulation!
      apt-get needs root privileges for real execution.
Reading package lists... Done
Building dependency tree... Done
Reading state information... Done
"""
TOOLKIT = """The following NEW packages will be installed:
  cuda-nvcc-13-0 libcublas-13-0
0 upgraded, 2 newly installed, 0 to remove and 3 not upgraded.
Inst cuda-driver-dev-13-0 (13.0.96-1 NVIDIA CUDA:ubuntu2404/sbsa [arm64])
Inst cuda-nvcc-13-0 (13.0.88-1 NVIDIA CUDA:ubuntu2404/sbsa [arm64])
Inst libcublas-13-0 [13.0.0] (13.1.1.3-1 NVIDIA CUDA:ubuntu2404/sbsa [arm64]) []
Inst linux-libc-dev (6.8.0-88.89 Ubuntu:24.04/noble-updates [arm64])
Inst libc6:armhf (2.39-0ubuntu8 Ubuntu:24.04/noble [armhf])
Conf cuda-nvcc-13-0 (13.0.88-1 NVIDIA CUDA:ubuntu2404/sbsa [arm64])
Conf libcublas-13-0 (13.1.1.3-1 NVIDIA CUDA:ubuntu2404/sbsa [arm64])
"""
PULLED = "apt would install or change {} (pulled in)"


def inst(name: str) -> str:
    return f"Inst {name} (580.95.05-0 Ubuntu:24.04/noble [arm64])\n"


def test_toolkit_and_build_packages_are_fine() -> None:
    assert APT.refused(HEAD + TOOLKIT, ["cuda-nvcc-13-0=13.0.88-1", "libcublas-13-0"]) == []


@pytest.mark.parametrize(
    "name",
    [
        "cuda",
        "cuda-drivers",
        "cuda-drivers-580",
        "nvidia-open",
        "nvidia-open-580",
        "nvidia-driver-580-open",
        "nvidia-utils-580",
        "nvidia-dkms-580-open",
        "nvidia-compute-utils-580-server",
        "nvidia-headless-580",
        "nvidia-kernel-source-580-open",
        "nvidia-firmware-580-580.95.05",
        "nvidia-fabricmanager-580",
        "nvidia-persistenced",
        "nvidia-modprobe",
        "nvidia-container-toolkit",
        "nvidia-cuda-toolkit",  # Ubuntu's own nvcc 12.0, in front of the right one on PATH
        "libnvidia-compute-580",
        "libnvidia-container1",
        "linux-image-6.14.0-1013-nvidia",
        "linux-modules-6.14.0-1013-nvidia",
        "linux-headers-generic",
        "linux-generic-hwe-24.04",
        "linux-nvidia-hwe-24.04",
        "linux-firmware",
        "xserver-xorg-video-nvidia-580",
        "dgx-release",
        "docker-ce",
        "docker.io",
        "containerd.io",
        "libnvidia-compute-580:arm64",
    ],
)
def test_what_belongs_to_the_system_is_refused(name: str) -> None:
    text = HEAD + TOOLKIT + inst(name) + f"Conf {name} (580.95.05-0 [arm64])\n"
    assert APT.refused(text, ["cuda-nvcc-13-0"]) == [PULLED.format(name)]
    upgrade = HEAD + f"Inst {name} [570.1] (580.95.05-0 Ubuntu:24.04/noble [arm64])\n"
    assert APT.refused(upgrade, []) == [PULLED.format(name)]


@pytest.mark.parametrize(
    "name",
    ["cuda-nvcc-13-0", "cuda-driver-dev-13-0", "cuda-toolkit-config-common", "linux-libc-dev",
     "libcublas-dev-13-0", "build-essential", "gpg", "python3-venv", "cmake", "ninja-build"],
)  # fmt: skip
def test_what_we_need_is_not_refused(name: str) -> None:
    assert APT.refused(HEAD + inst(name), [name]) == []


def test_asking_for_a_driver_by_name_is_refused_too() -> None:
    assert APT.refused(inst("cuda-drivers"), ["cuda-drivers=580.1"]) == [
        "apt would install or change cuda-drivers (asked for by name)"
    ]


def test_every_removal_is_refused() -> None:
    text = "Remv libfoo1 [1.0] [bar:arm64 ]\nRemv nvidia-driver-580 [580.95]\n" + inst("bar")
    assert APT.refused(HEAD + text, ["bar"]) == [
        "apt would remove libfoo1",
        "apt would remove nvidia-driver-580",
    ]


def test_a_driver_that_the_pin_keeps_away_is_named() -> None:
    """apt 2.6.1 with the CUDA repository's drivers at priority -1."""
    text = (
        "The following packages have unmet dependencies:\n"
        " cuda-nvcc-13-0 : Depends: nvidia-driver-580-open but it is not installable\n"
        " other : PreDepends: libfoo (>= 2) but it is not installable\n"
    )
    assert APT.refused(text, ["cuda-nvcc-13-0"]) == ["cuda-nvcc-13-0 wants nvidia-driver-580-open"]
    assert APT.unmet(text)[1] == ("other", "libfoo")


def test_words_in_other_lines_do_not_matter() -> None:
    text = "The following packages were kept back:\n  nvidia-open linux-image-generic\n"
    assert APT.refused(HEAD + text + "Conf nvidia-open (1)\n Inst nvidia-open\n", []) == []


# --- the program, with an apt-get that only notes ----------------------------------------------


class FakeApt:
    """An apt-get on PATH: prints a simulation, notes what it was asked."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.log = root / "log"
        self.log.touch()
        (root / "simulation").write_text(HEAD + TOOLKIT)
        tool = root / "apt-get"
        tool.write_text(f"""#!/bin/sh
echo "$DEBIAN_FRONTEND $LC_ALL $*" >>{self.log}
case " $* " in
*" update "*) rm -f {root}/stale ;;
*" -s "*) if [ -e {root}/stale ]; then echo 'E: Unable to locate package' >&2; exit 100; fi
          if [ -e {root}/unknown ]; then echo 'E: Unable to locate package' >&2; exit 100; fi
          cat {root}/simulation ;;
*) if [ -e {root}/broken ]; then echo 'E: dpkg was interrupted' >&2; exit 100; fi
   case " $* " in *" -f "*) echo 'ii  gpg' >{root}/status ;; esac ;;
esac
""")
        (root / "status").write_text("ii  gpg\nrc  old\n")
        (root / "dpkg-query").write_text(f"#!/bin/sh\ncat {root}/status\n")
        (root / "dpkg").write_text(f"""#!/bin/sh
echo "$DEBIAN_FRONTEND $LC_ALL $*" >>{self.log}
[ ! -e {root}/stuck ] || {{ echo 'dpkg: error processing package' >&2; exit 1; }}
sed -i 's/^i[UF]/ii/' {root}/status; rm -f {root}/updates/*
""")
        for name in ("apt-get", "dpkg-query", "dpkg"):
            (root / name).chmod(0o755)
        (root / "updates").mkdir()
        for name in ("OURS", "LISTS", "FRONTEND"):
            monkeypatch.setattr(APT, name, root / f"{name}.lock")
        monkeypatch.setattr(APT, "UPDATES", root / "updates")
        monkeypatch.setenv("PATH", f"{root}:{os.environ['PATH']}")

    def asked(self) -> list[str]:
        """The verbs, in order."""
        words = [line.split() for line in self.log.read_text().splitlines()]
        return [
            "simulate"
            if "-s" in line
            else next(w for w in line if w in ("install", "update", "--configure"))
            for line in words
        ]


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeApt:
    return FakeApt(tmp_path, monkeypatch)


def test_it_simulates_and_then_installs(apt: FakeApt) -> None:
    assert APT.main(["cuda-nvcc-13-0=13.0.88-1"]) == 0
    assert apt.asked() == ["simulate", "install"]
    for line in apt.log.read_text().splitlines():
        assert line.startswith("noninteractive C.UTF-8 ")
        assert line.endswith(" install cuda-nvcc-13-0=13.0.88-1")
        assert "--no-install-recommends" in line
        assert "DPkg::Lock::Timeout=600" in line


def test_a_refusal_installs_nothing(apt: FakeApt, capsys: pytest.CaptureFixture[str]) -> None:
    (apt.root / "simulation").write_text(inst("nvidia-open") + "Remv libfoo [1]\n")
    assert APT.main(["gpg"]) == 1
    assert apt.asked() == ["simulate"]
    assert capsys.readouterr().err == (
        "apt: refused, nothing was installed: apt would install or change nvidia-open (pulled "
        "in); apt would remove libfoo; sparkwright never changes driver, kernel, firmware or "
        "container toolkit\n"
    )


def test_stale_lists_are_updated_once(apt: FakeApt) -> None:
    (apt.root / "stale").touch()
    assert APT.main(["gpg"]) == 0
    assert apt.asked() == ["simulate", "update", "simulate", "install"]


def test_an_unknown_package_is_one_line(apt: FakeApt, capsys: pytest.CaptureFixture[str]) -> None:
    (apt.root / "unknown").touch()
    assert APT.main(["gpg", "cmake"]) == 1
    assert apt.asked() == ["simulate", "update", "simulate"]
    assert capsys.readouterr().err == (
        "apt: cannot install gpg cmake: E: Unable to locate package; look at the machine's apt "
        "sources\n"
    )


def test_a_failed_install_shows_apts_own_words(
    apt: FakeApt, capsys: pytest.CaptureFixture[str]
) -> None:
    (apt.root / "broken").touch()
    assert APT.main(["gpg"]) == 1
    assert capsys.readouterr().err == "apt: install of gpg failed:\nE: dpkg was interrupted\n"


# --- what an interrupted installation left ------------------------------------------------------


@pytest.mark.parametrize(
    ("listing", "names"),
    [
        ("ii  gpg\nrc  old\nun  none\nhi  held\n", []),
        ("iU  cmake\niF  g++:arm64\niH  gcc\niW  man-db\nit  libc-bin\nii  gpg\n",
         ["cmake", "g++:arm64", "gcc", "man-db", "libc-bin"]),
        ("iHR gcc\n", ["gcc"]),
        ("", []),
    ],
)  # fmt: skip
def test_what_dpkg_did_not_finish(listing: str, names: list[str]) -> None:
    assert APT.unfinished(listing) == names


def test_an_interrupted_installation_is_finished_first(apt: FakeApt) -> None:
    (apt.root / "status").write_text("iU  cmake\nii  gpg\n")
    assert APT.main(["gpg"]) == 0
    assert apt.asked() == ["--configure", "simulate", "install"]
    assert "--force-confold --configure -a" in apt.log.read_text()


def test_changes_that_dpkg_noted_alone_are_enough(apt: FakeApt) -> None:
    (apt.root / "updates/0000").touch()
    assert APT.main(["gpg"]) == 0
    assert apt.asked() == ["--configure", "simulate", "install"]


def test_a_half_unpacked_package_is_fetched_again(apt: FakeApt) -> None:
    (apt.root / "status").write_text("iHR cmake\n")
    assert APT.main(["gpg"]) == 0
    assert apt.asked() == ["--configure", "simulate", "install", "simulate", "install"]


def test_a_half_installed_driver_is_left_to_its_owner(
    apt: FakeApt, capsys: pytest.CaptureFixture[str]
) -> None:
    (apt.root / "status").write_text("iF  nvidia-dkms-580-open:arm64\niU  cmake\n")
    assert APT.main(["gpg"]) == 1
    assert apt.asked() == []
    assert capsys.readouterr().err == (
        "apt: the installation of nvidia-dkms-580-open:arm64 was interrupted and is not ours to "
        "finish; run on the machine: sudo dpkg --configure -a\n"
    )


def test_a_repair_that_fails_says_what_dpkg_said(
    apt: FakeApt, capsys: pytest.CaptureFixture[str]
) -> None:
    (apt.root / "status").write_text("iF  cmake\n")
    (apt.root / "stuck").touch()
    (apt.root / "broken").touch()
    assert APT.main(["gpg"]) == 1
    assert "an interrupted installation could not be finished:\nE: dpkg" in capsys.readouterr().err


def test_the_lists_of_one_source_are_read_anew(apt: FakeApt) -> None:
    assert APT.main(["--update", "/etc/apt/sources.list.d/a.sources", "gpg"]) == 0
    assert apt.asked() == ["update", "simulate", "install"]
    line = apt.log.read_text().splitlines()[0]
    assert "Dir::Etc::sourcelist=/etc/apt/sources.list.d/a.sources" in line


@pytest.mark.parametrize(("name", "words"), [("LISTS", ["--update", "x"]), ("FRONTEND", [])])
def test_somebody_elses_apt_is_waited_for(apt: FakeApt, name: str, words: list[str]) -> None:
    place = getattr(APT, name)
    place.touch()
    hold = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); "
        "print('held', flush=True); time.sleep(0.5); open(sys.argv[2], 'a').write('x y update\\n')"
    )
    argv = [sys.executable, "-c", hold, str(place), str(apt.log)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert APT.main([*words, "gpg"]) == 0
    assert apt.asked()[0] == "update"
    assert apt.log.read_text().startswith("x y update")
