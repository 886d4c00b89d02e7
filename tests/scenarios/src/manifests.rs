/// A cluster with KubeadmControlPlane and a MachineDeployment.
#[derive(Clone, Debug)]
pub struct ClusterShape<'a> {
    /// Name of the cluster.
    pub name: &'a str,
    /// Control planes.
    pub control_planes: u32,
    /// Workers.
    pub workers: u32,
    /// MAAS zones for the control planes; empty for any.
    pub zones: &'a [&'a str],
    /// Image.
    pub image: &'a str,
    /// Cores and MiB of control planes.
    pub control_plane_size: (u32, u32),
    /// Cores and MiB of workers.
    pub worker_size: (u32, u32),
}

/// The manifests a user applies. External etcd, because no etcd pods run on a simulated host.
pub fn kubeadm_cluster(shape: &ClusterShape<'_>) -> String {
    let ClusterShape { name, control_planes, workers, image, .. } = shape;
    let zones = shape.zones.join(", ");
    let (cp_cores, cp_memory) = shape.control_plane_size;
    let (worker_cores, worker_memory) = shape.worker_size;
    let template = |suffix: &str, cores: u32, memory: u32| {
        format!(
            r"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: MaasMachineTemplate
metadata: {{name: {name}-{suffix}}}
spec: {{template: {{spec: {{minCPU: {cores}, minMemory: {memory}, image: {image}, resourcePool: null, tags: []}}}}}}
"
        )
    };
    let control_plane = template("control-plane", cp_cores, cp_memory);
    let worker = template("md-0", worker_cores, worker_memory);
    format!(
        r#"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: MaasCluster
metadata: {{name: {name}}}
spec: {{dnsDomain: maas, failureDomains: [{zones}]}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {{name: {name}}}
spec:
  clusterNetwork: {{pods: {{cidrBlocks: [192.168.0.0/16]}}, services: {{cidrBlocks: [10.96.0.0/12]}}}}
  controlPlaneRef: {{apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: {name}-control-plane}}
  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: MaasCluster, name: {name}}}
---{control_plane}---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {{name: {name}-control-plane}}
spec:
  replicas: {control_planes}
  version: v1.34.1
  machineTemplate:
    spec:
      infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: MaasMachineTemplate, name: {name}-control-plane}}
  kubeadmConfigSpec:
    clusterConfiguration:
      etcd:
        external: {{endpoints: ["https://127.0.0.1:2379"], caFile: /etc/e/ca.crt, certFile: /etc/e/c.crt, keyFile: /etc/e/c.key}}
    initConfiguration: {{nodeRegistration: {{name: '{{{{ v1.local_hostname }}}}'}}}}
    joinConfiguration: {{nodeRegistration: {{name: '{{{{ v1.local_hostname }}}}'}}}}
---{worker}---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {{name: {name}-md-0}}
spec:
  clusterName: {name}
  replicas: {workers}
  selector: {{matchLabels: {{cluster.x-k8s.io/cluster-name: {name}}}}}
  template:
    spec:
      clusterName: {name}
      version: v1.34.1
      bootstrap: {{configRef: {{apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: {name}-md-0}}}}
      infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: MaasMachineTemplate, name: {name}-md-0}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {{name: {name}-md-0}}
spec: {{template: {{spec: {{joinConfiguration: {{nodeRegistration: {{name: '{{{{ v1.local_hostname }}}}'}}}}}}}}}}
"#
    )
}

/// `machinedeployments/<cluster>-md-0`, which `kubectl scale` takes.
pub fn scalable(cluster: &str) -> String {
    format!("machinedeployments.cluster.x-k8s.io/{cluster}-md-0")
}
