//! The programs of the control plane: found in `KUBEBUILDER_ASSETS`, found in the cache, or built by `go`.

mod cache;
mod go;
mod manifests;
mod modules;
mod progress;

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

pub use progress::Progress;

use cache::{Cache, Entry};
use modules::Module;

/// Where everything is. All paths are absolute.
#[derive(Clone, Debug, Serialize)]
pub struct Binaries {
    /// etcd.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub kube_apiserver: PathBuf,
    /// kube-controller-manager: garbage collection and the deletion of namespaces.
    pub kube_controller_manager: PathBuf,
    /// kubectl.
    pub kubectl: PathBuf,
    /// The core manager of Cluster API.
    pub capi_core: PathBuf,
    /// The kubeadm bootstrap manager of Cluster API.
    pub capi_bootstrap: PathBuf,
    /// The kubeadm control-plane manager of Cluster API.
    pub capi_control_plane: PathBuf,
    /// clusterctl.
    pub clusterctl: PathBuf,
    /// helm.
    pub helm: PathBuf,
    /// oras, a client of OCI registries.
    pub oras: PathBuf,
    /// A folder with the manifests that Cluster API releases: `core.yaml`, `bootstrap-kubeadm.yaml`,
    /// `control-plane-kubeadm.yaml`, and `metadata.yaml`.
    pub capi_manifests: PathBuf,
}

/// The version of Cluster API that is built.
pub const CLUSTER_API_VERSION: &str = modules::CLUSTER_API_VERSION;

/// The version of Kubernetes that is built.
pub const KUBERNETES_VERSION: &str = modules::KUBERNETES_VERSION;

impl Binaries {
    /// Finds or builds everything. Quick when the cache is warm (no Go is needed then), else some fourteen minutes.
    ///
    /// # Errors
    /// When something has to be built and cannot be: `go` is missing, too old, or fails.
    pub fn ensure(progress: Progress) -> Result<Self> {
        let cache = Cache::open()?;
        // Most calls find everything; they must not wait for a build that another process has under way elsewhere.
        if let Some(found) = Self::find(&cache)? {
            return Ok(found);
        }
        let _lock = cache.lock(&progress)?;
        modules::all().iter().try_for_each(|module| Self::complete(&cache, module, progress))?;
        let kubectl = Self::locate(&cache, "kubectl")?;
        let entry = cache.entry(modules::cluster_api())?;
        if let Some(kubectl) = kubectl
            && !manifests::complete(&entry)
        {
            manifests::render(&kubectl, &entry, &progress)?;
        }
        Self::find(&cache)?.ok_or_else(|| changed(&cache))
    }

    /// Finds or builds oras alone: for tests that need a registry and no control plane.
    ///
    /// # Errors
    /// When it has to be built and cannot be: `go` is missing, too old, or fails.
    pub fn ensure_oras(progress: Progress) -> Result<PathBuf> {
        let cache = Cache::open()?;
        if let Some(found) = Self::locate(&cache, "oras")? {
            return Ok(found);
        }
        let _lock = cache.lock(&progress)?;
        Self::complete(&cache, modules::oras(), progress)?;
        Self::locate(&cache, "oras")?.ok_or_else(|| changed(&cache))
    }

    /// Builds what is missing of a module.
    fn complete(cache: &Cache, module: &Module, progress: Progress) -> Result<()> {
        let entry = cache.entry(module)?;
        let assets = modules::assets();
        for program in module.programs {
            if modules::in_assets(assets.as_deref(), program.name).is_none()
                && !entry.path(program.name).is_file()
            {
                go::build(module, program, &entry, &progress)?;
            }
        }
        Ok(())
    }

    fn find(cache: &Cache) -> Result<Option<Self>> {
        let Some(entry) = cache.existing(modules::cluster_api())? else {
            return Ok(None);
        };
        if !manifests::complete(&entry) {
            return Ok(None);
        }
        let mut missing = false;
        let mut locate = |name: &str| -> Result<PathBuf> {
            let path = Self::locate(cache, name)?;
            missing |= path.is_none();
            Ok(path.unwrap_or_default())
        };
        let found = Self {
            etcd: locate("etcd")?,
            kube_apiserver: locate("kube-apiserver")?,
            kube_controller_manager: locate("kube-controller-manager")?,
            kubectl: locate("kubectl")?,
            capi_core: locate("capi-core")?,
            capi_bootstrap: locate("capi-bootstrap")?,
            capi_control_plane: locate("capi-control-plane")?,
            clusterctl: locate("clusterctl")?,
            helm: locate("helm")?,
            oras: locate("oras")?,
            capi_manifests: manifests::folder(&entry),
        };
        Ok((!missing).then_some(found))
    }

    fn locate(cache: &Cache, name: &str) -> Result<Option<PathBuf>> {
        if let Some(path) = modules::in_assets(modules::assets().as_deref(), name) {
            return Ok(Some(path));
        }
        let module = modules::all()
            .iter()
            .find(|module| module.programs.iter().any(|program| program.name == name));
        let entry: Option<Entry> = match module {
            Some(module) => cache.existing(module)?,
            None => None,
        };
        Ok(entry.map(|entry| entry.path(name)).filter(|path| path.is_file()))
    }
}

fn changed(cache: &Cache) -> anyhow::Error {
    anyhow::anyhow!("the cache {} changed meanwhile", cache.path().display())
}

/// The folder of a module's `go.mod`, in this crate.
fn source(module: &Module) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("go").join(module.name)
}
