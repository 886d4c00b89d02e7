use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use control_plane::ManagementPlane;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, PodSpec, SecretKeySelector};

/// Where the chart is.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/capmaas")
}

/// The namespace the chart is installed in.
const SYSTEM: &str = "capmaas-system";

/// The Deployment never runs here; the credentials in it are not those of any scenario.
pub(crate) const VALUES: [(&str, &str); 3] = [
    ("maas.endpoint", "http://maas.invalid:5240/MAAS"),
    ("maas.apiKey", "a:b:c"),
    ("image.repository", "none"),
];

/// The folder of a plane, and what came of the installation there.
type Installed = BTreeMap<PathBuf, std::result::Result<PathBuf, String>>;

/// Installs the chart once a plane and returns a kubeconfig of its ServiceAccount.
///
/// # Errors
/// When Helm or the API server refuse.
pub fn install_chart(plane: &ManagementPlane) -> Result<PathBuf> {
    static INSTALLED: Mutex<Installed> = Mutex::new(BTreeMap::new());
    let mut all = INSTALLED.lock().expect("no panic");
    let installed = all
        .entry(plane.dir().to_owned())
        .or_insert_with(|| install(plane).map_err(|e| format!("{e:#}")));
    installed.clone().map_err(anyhow::Error::msg)
}

fn install(plane: &ManagementPlane) -> Result<PathBuf> {
    plane.helm_install(&chart(), "capmaas", SYSTEM, &VALUES)?;
    let kinds = ["maasclusters", "maasmachines", "maasmachinetemplates", "maasclustertemplates"];
    let kinds = kinds.map(|kind| format!("{kind}.infrastructure.cluster.x-k8s.io"));
    for kind in kinds.iter().map(String::as_str).chain(["maaspolicies.policy.capmaas.io"]) {
        let name = format!("crd/{kind}");
        plane.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", &name])?;
    }
    let kubeconfig = plane.dir().join("capmaas-manager.kubeconfig");
    plane.service_account_kubeconfig(SYSTEM, "capmaas-manager", &kubeconfig)?;
    Ok(kubeconfig)
}

/// What the controller finds in the pod of a Deployment.
pub struct Pod {
    /// Its arguments, with the mounts where they are here.
    pub args: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
}

/// What the pod's volumes and variables refer to.
pub struct Surroundings<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// The Secret that each of its Secrets is.
    pub secret: &'a BTreeMap<&'a str, String>,
    /// The ConfigMap that each of its ConfigMaps is.
    pub config_map: &'a BTreeMap<&'a str, Vec<u8>>,
}

impl Pod {
    /// That of the installed chart, as a kubelet makes it when the Secret with the credentials holds this. Mounts are below
    /// the folder.
    ///
    /// # Errors
    /// When a kubelet would not start it, with the reason.
    pub fn with_credentials(
        plane: &ManagementPlane,
        secret: &BTreeMap<&str, String>,
        folder: &Path,
    ) -> Result<Self> {
        let name = "capmaas-controller-manager";
        let text = plane.kubectl(&["-n", SYSTEM, "get", "deployment", name, "-o", "json"])?;
        let around = Surroundings { namespace: SYSTEM, secret, config_map: &BTreeMap::new() };
        Self::of(serde_json::from_str(&text)?, &around, folder)
    }

    /// As a kubelet makes it. Mounts are below the folder.
    ///
    /// # Errors
    /// When a kubelet would not start it, with the reason.
    pub fn of(deployment: Deployment, around: &Surroundings<'_>, folder: &Path) -> Result<Self> {
        let pod = deployment.spec.and_then(|s| s.template.spec).context("a pod")?;
        let container = pod.containers.first().context("a container")?;
        let mut args = container.args.clone().unwrap_or_default();
        for (mounted_at, here) in mount(&pod, container, around, folder)? {
            for arg in &mut args {
                *arg = arg.replace(&mounted_at, &here.display().to_string());
            }
        }
        Ok(Self { args, environment: environment(container, around)? })
    }
}

/// Makes the volumes; where each is mounted, and where it is here.
fn mount(
    pod: &PodSpec,
    container: &Container,
    around: &Surroundings<'_>,
    folder: &Path,
) -> Result<Vec<(String, PathBuf)>> {
    let mut mounts = Vec::new();
    for volume in pod.volumes.iter().flatten() {
        let here = folder.join(&volume.name);
        std::fs::create_dir_all(&here)?;
        if let Some(source) = &volume.secret {
            ensure!(source.items.is_none(), "with items, each of them would have to be there");
            for (key, value) in around.secret {
                std::fs::write(here.join(key), value)?;
            }
        } else if let Some(source) = &volume.config_map {
            ensure!(source.items.is_none(), "with items, each of them would have to be there");
            for (key, value) in around.config_map {
                std::fs::write(here.join(key), value)?;
            }
        } else {
            ensure!(volume.empty_dir.is_some(), "volume {} is of no known kind", volume.name);
        }
        let mount = container.volume_mounts.iter().flatten().find(|m| m.name == volume.name);
        mounts.push((mount.context("a mount")?.mount_path.clone(), here));
    }
    // `/etc/capmaas/maas` also is how `/etc/capmaas/maas-ca` begins.
    mounts.sort_by_key(|(mounted_at, _)| Reverse(mounted_at.len()));
    Ok(mounts)
}

fn environment(container: &Container, around: &Surroundings<'_>) -> Result<Vec<(String, String)>> {
    ensure!(container.env_from.is_none(), "this scenario knows single variables alone");
    let mut environment = Vec::new();
    for variable in container.env.iter().flatten() {
        let from = variable.value_from.as_ref();
        let field = from.and_then(|from| from.field_ref.as_ref()).map(|f| f.field_path.as_str());
        if field == Some("metadata.namespace") {
            environment.push((variable.name.clone(), around.namespace.to_owned()));
        }
        let from = from.and_then(|from| from.secret_key_ref.as_ref());
        let Some(SecretKeySelector { key, optional, .. }) = from else { continue };
        match around.secret.get(key.as_str()) {
            Some(value) => environment.push((variable.name.clone(), value.clone())),
            None if *optional == Some(true) => {}
            None => bail!("couldn't find key {key} in the Secret: the pod does not start"),
        }
    }
    Ok(environment)
}
