"""The Dockerfile and environment.yml agree with pyproject.toml and constraints.txt. No image is built."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INSTRUCTIONS = {"ARG", "FROM", "RUN", "COPY", "USER", "ENV", "WORKDIR", "EXPOSE", "ENTRYPOINT", "CMD"}


def instructions() -> list[tuple[str, str]]:
    """Every instruction of the Dockerfile with its arguments, continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


def words(name: str) -> list[str]:
    return [rest for each, rest in instructions() if each == name]


def environment() -> tuple[list[str], list[str]]:
    """The packages that conda installs, and those that pip installs."""
    content = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    *conda, pip = content["dependencies"]
    return conda, pip["pip"]


def is_supported(version: str) -> bool:
    least = PROJECT["requires-python"].removeprefix(">=")
    return tuple(map(int, version.split("."))) >= tuple(map(int, least.split(".")))


def is_sent(path: str) -> bool:
    """Whether a file is sent to Docker: the last matching line of .dockerignore decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#") and fnmatch(path, line.lstrip("!").removeprefix("**/")):
            sent = line.startswith("!")
    return sent


def test_the_dockerfile_has_known_instructions_and_begins_with_an_image() -> None:
    assert {name for name, _ in instructions()} <= INSTRUCTIONS
    assert [name for name, _ in instructions() if name != "ARG"][0] == "FROM"
    assert all(rest.strip() for _, rest in instructions())


def test_variables_of_the_dockerfile_are_declared_before_they_are_used() -> None:
    declared = {"HOME"}
    for name, rest in instructions():
        assert set(re.findall(r"\$\{(\w+)", rest)) <= declared
        if name == "ARG":
            declared.add(rest.partition("=")[0])
    assert {"TORCH_INDEX", "EXTRAS", "PYTHON"} <= declared


def test_files_that_the_dockerfile_copies_exist_and_are_sent() -> None:
    copied = [source for rest in words("COPY") for source in rest.split()[:-1]]
    needed = ["pyproject.toml", "constraints.txt", PROJECT["readme"], *PROJECT["license-files"], "clew"]
    assert sorted(copied) == sorted(needed)
    assert all((ROOT / path).exists() and is_sent(path) for path in copied)
    assert not any(map(is_sent, (".git", "runs", "tests", "docs", "__pycache__", ".env")))


def test_everything_is_installed_in_the_tested_versions() -> None:
    installs = [part for rest in words("RUN") for part in rest.split("&&") if "pip install" in part]
    assert len(installs) == 2 and all("-c /opt/clew/constraints.txt" in part for part in installs)
    assert "-c constraints.txt" in environment()[1]
    assert "\ntorch==" in (ROOT / "constraints.txt").read_text(encoding="utf-8")


def test_the_container_does_not_run_as_root() -> None:
    names = [name for name, _ in instructions()]
    assert words("USER") == ["clew"] and names.index("USER") < names.index("ENTRYPOINT")
    assert "RUN" not in names[names.index("USER") :]


def test_both_use_a_supported_python_and_wheels_for_cpu() -> None:
    conda, pip = environment()
    [python] = [each.partition("=")[2] for each in conda if each.startswith("python=")]
    assert is_supported(python) and f"PYTHON={python}" in words("ARG")
    [index] = [each.partition("=")[2] for each in words("ARG") if each.startswith("TORCH_INDEX=")]
    assert f"--extra-index-url {index}" in pip


def test_named_extras_exist() -> None:
    extras = PROJECT["optional-dependencies"]
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8") + (ROOT / "environment.yml").read_text(encoding="utf-8")
    named = [name for group in re.findall(r"\[([\w,]+)\]", text) for name in group.split(",")]
    assert len(named) > 3 and set(named) <= {*extras}


def test_the_exposed_port_is_the_default_of_serve() -> None:
    from clew.cli import serve

    assert words("EXPOSE") == [
        re.search(r"the port \(default: (\d+)", Path(serve.__file__).read_text(encoding="utf-8"))[1]
    ]  # type: ignore[index]
