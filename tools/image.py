"""Builds the image without a container engine: Debian's Python, locked wheels and our wheel, as an OCI layout."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from tools.image_layout import ImageConfiguration, write_layout
from tools.image_sbom import Component, deb_component, write_sbom
from tools.locked_wheels import locked_requirements, requirement_names
from watchword import __version__

ROOT = Path(__file__).parents[1]
SUITE = "bookworm"
PYTHON = "3.11"  # of that suite
PACKAGES = ("python3-minimal", "libpython3-stdlib", "ca-certificates", "tzdata")
MIRROR = "http://deb.debian.org/debian"
TOOLS = ("mmdebstrap",)
USER = 65532
EXTRAS = ("aws", "grpc")
AWS_SERVICES = ("eks", "iam", "sts")
"""Those that our code asks; botocore describes hundreds of others, which would be a third of the image."""
PRUNED = (
    *("usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/perl5", "usr/share/bug"),
    *("usr/share/pixmaps", "usr/share/applications", "usr/share/debconf", "usr/share/polkit-1", "usr/share/dpkg"),
    *("usr/lib/dpkg", "usr/lib/apt", "usr/lib/python3.11/lib2to3", "usr/lib/python3.11/idlelib", "var", "etc/apt"),
    *("etc/dpkg", "etc/cron.daily", "etc/logrotate.d", "etc/hostname", "etc/resolv.conf", "dev"),
)
SCRIPT = "#!/usr/bin/python3 -sP\nfrom watchword.cli.main import main\n\nmain()\n"
PASSWD = f"root:x:0:0:root:/:/usr/sbin/nologin\nwatchword:x:{USER}:{USER}:watchword:/tmp:/usr/sbin/nologin\n"


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What differs from one build to another."""

    target: Path  # the OCI layout
    tag: str = __version__
    extras: tuple[str, ...] = EXTRAS
    mirror: str = MIRROR


def main() -> None:
    """Build the image and print its digest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, default=ROOT / "dist" / "image")
    parser.add_argument("--tag", default=__version__)
    parser.add_argument("--extras", default=",".join(EXTRAS), help="extras of the package, separated by commas")
    parser.add_argument("--mirror", default=MIRROR, help="a date of snapshot.debian.org fixes Debian's packages")
    chosen = parser.parse_args()
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        sys.exit(f"image: not installed: {', '.join(missing)} (apt-get install {' '.join(missing)})")
    extras = tuple(filter(None, chosen.extras.split(",")))
    print(build_image(BuildOptions(chosen.target, chosen.tag, extras, chosen.mirror)))


def build_image(options: BuildOptions) -> str:
    """Write the layout and its SBOM beside it; return the digest of the image."""
    with tempfile.TemporaryDirectory(prefix="watchword-image-") as work:
        folder = Path(work)
        rootfs = folder / "rootfs"
        components = [
            *install_debian(rootfs, folder, options.mirror),
            *install_wheels(rootfs, folder, options.extras),
        ]
        prune(rootfs)
        complete(rootfs)
        sbom = write_sbom(components, version=__version__)
        place(rootfs / "usr/share/sbom/watchword.cdx.json", sbom)
        compile_bytecode(rootfs)
        digest = write_layout(rootfs, options.target, options.tag, image_configuration(source_date()))
        place(options.target.with_suffix(".cdx.json"), sbom)
        return digest


def image_configuration(created: int) -> ImageConfiguration:
    """Return how a container is started; deploy/Containerfile says the same."""
    return ImageConfiguration(
        entrypoint=("/usr/local/bin/watchword",),
        command=("--help",),
        user=f"{USER}:{USER}",
        environment=("PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED=1", "HOME=/tmp"),
        created=created,
        labels={"org.opencontainers.image.title": "watchword", "org.opencontainers.image.version": __version__},
    )


def source_date() -> int:
    """Return the time that the image bears: $SOURCE_DATE_EPOCH, else that of the last commit."""
    named = os.environ.get("SOURCE_DATE_EPOCH")
    if named:
        return int(named)
    return int(run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]) or 0)


def install_debian(rootfs: Path, folder: Path, mirror: str) -> list[Component]:
    """Unpack Debian's Python and what it needs, without running a script of any package."""
    listing = folder / "packages"
    run(
        [
            *("mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(PACKAGES)}"),
            '--aptopt=APT::Install-Recommends "false"',
            f'--extract-hook=ls "$1/var/cache/apt/archives" > {listing}',
            *(SUITE, str(rootfs), f"deb {mirror} {SUITE} main"),
        ]
    )
    return [deb_component(name) for name in sorted(listing.read_text().split()) if name.endswith(".deb")]


def install_wheels(rootfs: Path, folder: Path, extras: Sequence[str]) -> list[Component]:
    """Unpack our wheel and the wheels of its dependencies, each verified by its hash in the lock."""
    wheels, own = folder / "wheels", folder / "own"
    requirements = folder / "requirements.txt"
    requirements.write_text(locked_requirements((ROOT / "requirements.lock").read_text(), requirement_names(extras)))
    abi = f"cp{PYTHON.replace('.', '')}"
    machine = platform.machine()
    platforms = [f"--platform=manylinux{form}_{machine}" for form in ("2014", "_2_17", "_2_28", "_2_34", "_2_36")]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    target = [f"--python-version={PYTHON}", f"--abi={abi}", "--abi=abi3", "--abi=none", *platforms]
    run([*pip, "--require-hashes", "--only-binary=:all:", *target, "-d", str(wheels), "-r", str(requirements)])
    run([sys.executable, "-m", "build", "--no-isolation", "--wheel", f"--outdir={own}", str(ROOT)])
    packages = rootfs / f"usr/local/lib/python{PYTHON}/dist-packages"
    components = []
    for wheel in sorted([*wheels.glob("*.whl"), *own.glob("*.whl")]):
        with ZipFile(wheel) as archive:
            archive.extractall(packages)
        name, version = wheel.name.split("-")[:2]
        components.append(Component("pypi", name.replace("_", "-").lower(), version))
    for data in packages.glob("*.data"):  # headers and scripts, which no process here runs
        shutil.rmtree(data)
    return components


def prune(rootfs: Path) -> None:
    """Remove what no process of the image reads; licences stay."""
    for name in PRUNED:
        path = rootfs / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for path in (rootfs / "usr/share/doc").rglob("*"):
        if path.is_symlink() or (path.is_file() and path.name != "copyright"):
            path.unlink()
    for path in (*(rootfs / "usr/bin").glob("dpkg*"), *(rootfs / "usr/sbin").iterdir()):
        path.unlink()
    for path in (rootfs / f"usr/local/lib/python{PYTHON}/dist-packages/botocore/data").glob("*/"):
        if path.name not in AWS_SERVICES:
            shutil.rmtree(path)


def complete(rootfs: Path) -> None:
    """Add what the scripts of Debian's packages would have made: authorities, the user, our command."""
    authorities = sorted((rootfs / "usr/share/ca-certificates").rglob("*.crt"))
    place(rootfs / "etc/ssl/certs/ca-certificates.crt", "".join(path.read_text() for path in authorities))
    place(rootfs / "etc/passwd", PASSWD)
    place(rootfs / "etc/group", f"root:x:0:\nwatchword:x:{USER}:\n")
    script = rootfs / "usr/local/bin/watchword"
    place(script, SCRIPT)
    script.chmod(0o755)
    (rootfs / "tmp").mkdir(exist_ok=True)
    (rootfs / "tmp").chmod(0o1777)


def place(path: Path, text: str) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def compile_bytecode(rootfs: Path) -> None:
    """Compile every module with the image's own Python: a read-only root cannot keep what a process compiles."""
    places = [f"/usr/lib/python{PYTHON}", f"/usr/local/lib/python{PYTHON}/dist-packages"]
    python = ["/usr/bin/python3", "-sP", "-m", "compileall", "-q", "-f", "-j1", "--invalidation-mode=unchecked-hash"]
    chroot = ["chroot"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "chroot"]
    environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0"}
    done = subprocess.run([*chroot, str(rootfs), *python, *places], env=environment, check=False, capture_output=True)
    if done.returncode not in (0, 1):  # 1: the standard library has files with wrong syntax on purpose
        sys.exit(f"image: compileall failed: {done.stderr.decode()}")


def run(command: Sequence[str]) -> str:
    """Run one step and return what it printed; a failure ends the build with the step's own words."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"image: `{' '.join(command[:3])}` failed (see above)")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
