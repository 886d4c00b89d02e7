//! What is built from which Go module.

use std::path::{Path, PathBuf};

/// The version of Kubernetes, as its `go.mod` pins it.
pub(super) const KUBERNETES_VERSION: &str = "v1.37.2";
/// The version of Cluster API, as its `go.mod` pins it.
pub(super) const CLUSTER_API_VERSION: &str = "v1.14.2";

/// One folder below `go/`, with a `go.mod` of its own because the dependencies of the five disagree.
pub(super) struct Module {
    pub(super) name: &'static str,
    pub(super) ldflags: &'static str,
    pub(super) programs: &'static [Program],
}

/// One program of a module.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    /// How long building it takes when nothing is warm, on two cores.
    pub(super) usually: &'static str,
}

const fn program(name: &'static str, package: &'static str, usually: &'static str) -> Program {
    Program { name, package, usually }
}

const MODULES: [Module; 5] = [
    Module {
        name: "etcd",
        ldflags: "-s -w",
        programs: &[program("etcd", "go.etcd.io/etcd/server/v3", "1 minute")],
    },
    Module {
        name: "kube",
        ldflags: "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2",
        programs: &[
            program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", "5 minutes"),
            program("kubectl", "k8s.io/kubernetes/cmd/kubectl", "1 minute"),
            program(
                "kube-controller-manager",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
                "2 minutes",
            ),
        ],
    },
    Module {
        name: "cluster-api",
        // without a version clusterctl refuses to work
        ldflags: "-s -w -X sigs.k8s.io/cluster-api/version.gitVersion=v1.14.2 \
                  -X sigs.k8s.io/cluster-api/version.gitMajor=1 \
                  -X sigs.k8s.io/cluster-api/version.gitMinor=14 \
                  -X sigs.k8s.io/cluster-api/version.gitCommit=unknown \
                  -X sigs.k8s.io/cluster-api/version.gitTreeState=clean",
        programs: &[
            program("capi-core", "sigs.k8s.io/cluster-api/core", "3 minutes"),
            program("capi-bootstrap", "sigs.k8s.io/cluster-api/bootstrap/kubeadm", "10 seconds"),
            program(
                "capi-control-plane",
                "sigs.k8s.io/cluster-api/controlplane/kubeadm",
                "10 seconds",
            ),
            program("clusterctl", "sigs.k8s.io/cluster-api/cmd/clusterctl", "15 seconds"),
        ],
    },
    Module {
        name: "helm",
        ldflags: "-s -w",
        programs: &[program("helm", "helm.sh/helm/v4/cmd/helm", "2 minutes")],
    },
    Module {
        name: "oras",
        ldflags: "-s -w",
        programs: &[program("oras", "oras.land/oras/cmd/oras", "half a minute")],
    },
];

pub(super) fn all() -> &'static [Module] {
    &MODULES
}

pub(super) fn cluster_api() -> &'static Module {
    &MODULES[2]
}

pub(super) fn oras() -> &'static Module {
    &MODULES[4]
}

/// The folder that `KUBEBUILDER_ASSETS` names, if it holds what that convention says it does.
pub(super) fn assets() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS")?);
    ["etcd", "kube-apiserver", "kubectl"]
        .iter()
        .all(|name| folder.join(name).is_file())
        .then_some(folder)
}

/// A program in that folder. kube-controller-manager is taken from there too if somebody put it there.
pub(super) fn in_assets(folder: Option<&Path>, name: &str) -> Option<PathBuf> {
    const TAKEN: [&str; 4] = ["etcd", "kube-apiserver", "kubectl", "kube-controller-manager"];
    let path = folder?.join(name);
    (TAKEN.contains(&name) && path.is_file()).then(|| std::path::absolute(&path).unwrap_or(path))
}
