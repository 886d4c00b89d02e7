/// A machine of a scenario, without a control plane provider behind it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Name of Machine, MaasMachine and Secret.
    pub name: String,
    /// Control plane or worker.
    pub control_plane: bool,
    /// Fields of `MaasMachine.spec` as YAML flow entries, for example `"tags: [gpu]"`.
    pub spec: Vec<String>,
    /// `Machine.spec.failureDomain`.
    pub failure_domain: Option<String>,
    /// What the bootstrap Secret holds; `None` makes none.
    pub bootstrap: Option<String>,
}

impl Machine {
    /// A worker that takes whatever there is.
    pub fn worker(name: &str) -> Self {
        Self {
            name: name.into(),
            control_plane: false,
            spec: vec![],
            failure_domain: None,
            bootstrap: Some(format!("#cloud-config\n# of {name}\n")),
        }
    }

    /// A control plane that takes whatever there is.
    pub fn control_plane(name: &str) -> Self {
        Self { control_plane: true, ..Self::worker(name) }
    }

    /// With a field of the specification.
    pub fn with(mut self, entry: &str) -> Self {
        self.spec.push(entry.to_owned());
        self
    }
}
