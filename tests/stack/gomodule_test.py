"""The go.mod with which the trial of deploy/kubernetes builds Kubernetes."""

from deploy.kubernetes.gomodule import MODULE, rewritten

GO_MOD = f"""module {MODULE}

go 1.24.0

require (
	github.com/spf13/cobra v1.9.1
	k8s.io/api v0.0.0
	k8s.io/gengo/v2 v2.0.0-20250604051438-85fd79dbfd9f
	k8s.io/kubectl v0.0.0 // indirect
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kubectl => ./staging/src/k8s.io/kubectl
)

replace k8s.io/mount-utils => ./staging/src/k8s.io/mount-utils
"""


def test_kubernetes_is_built_from_published_modules_alone() -> None:
    made = rewritten(GO_MOD, "v1.34.2")
    assert "staging" not in made
    assert f"module {MODULE}\n" not in made
    assert f"require {MODULE} v1.34.2\n" in made
    replaced = [line for line in made.splitlines() if line.startswith("replace")]
    assert replaced == [f"replace k8s.io/{name} => k8s.io/{name} v0.34.2" for name in ("api", "kubectl")]
