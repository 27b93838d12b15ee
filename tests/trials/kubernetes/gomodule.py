"""The go.mod of a module that depends on Kubernetes."""

import re

MODULE = "k8s.io/kubernetes"
_PART = re.compile(r"^\s+(k8s\.io/\S+) v0\.0\.0(?:\s|$)", re.MULTILINE)
_REPLACES = re.compile(r"^replace (?:\(.*?^\)|[^(\n]+)\n?", re.MULTILINE | re.DOTALL)


def rewritten(text: str, version: str) -> str:
    """Return the go.mod of a module that depends on Kubernetes and on nothing else.

    `text` is the go.mod of Kubernetes. It replaces its parts, of version v0.0.0, by folders that the published archive
    lacks; here the published modules of the same version replace them.
    """
    parts = sorted(set(_PART.findall(text)))
    lines = [_REPLACES.sub("", text).replace(f"module {MODULE}\n", "module tutti.dev/trial\n")]
    lines += [f"require {MODULE} {version}", *(f"replace {part} => {part} v0{version[2:]}" for part in parts)]
    return "\n".join(lines) + "\n"
