//! DNS-naming components as text: well-behaved except for what a test puts in.

/// Where the data lies that a guest's functions may use.
pub(crate) mod at {
    /// An answer that is all zeros: `ok(none)`. Functions fill it with an answer of their own.
    pub(crate) const ANSWER: u32 = 128;
    /// Sixteen bytes that are zero at first.
    pub(crate) const SCRATCH: u32 = 192;
    /// Some text, sixteen bytes long.
    pub(crate) const TEXT: u32 = 256;
    /// One byte that is no UTF-8.
    pub(crate) const NO_UTF8: u32 = 288;
    /// Free memory up to the schema.
    pub(crate) const FREE: u32 = 1024;
    /// The schema of the configuration; what is allocated begins behind it.
    pub(super) const SCHEMA: u32 = 18_000;
}

/// A component of the `dns-naming` world.
pub(crate) struct Guest {
    /// Body of `propose`; gets the address of the request, gives the address of the answer.
    pub(crate) propose: String,
    /// Body of `check-config`; gets address and length of the text, gives the address of the answer.
    pub(crate) check_config: String,
    /// Body of what is called when the host has read the answer.
    pub(crate) post_return: String,
    /// What happens first when the host asks for as many bytes as local 3 says.
    pub(crate) realloc: String,
    /// Body of the core module's start function.
    pub(crate) start: String,
    /// More functions and globals of the core module.
    pub(crate) more: String,
    /// Imports of the component besides the host's.
    pub(crate) imports: String,
    /// Version of the interface.
    pub(crate) interface: &'static str,
    /// What it calls itself.
    pub(crate) name: &'static str,
    /// JSON Schema of its configuration; at most 14 KiB.
    pub(crate) schema: String,
    /// Pages of memory at the start.
    pub(crate) pages: u32,
    /// Type of the answer of `propose`.
    pub(crate) answer: &'static str,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            propose: named(
                "(i32.load offset=48 (local.get 0))",
                "(i32.load offset=52 (local.get 0))",
            ),
            check_config: format!("(i32.const {})", at::SCRATCH),
            post_return: "nop".into(),
            realloc: "nop".into(),
            start: "nop".into(),
            more: String::new(),
            imports: String::new(),
            interface: "0.1.0",
            name: "guest",
            schema: String::new(),
            pages: 1,
            answer: "(result (option $name) (error $refusal))",
        }
    }
}

/// The body of a `propose` that answers with this label.
pub(crate) fn named(address: &str, length: &str) -> String {
    let at = at::ANSWER;
    format!(
        "(i32.store offset=4 (i32.const {at}) (i32.const 1))
         (i32.store offset=8 (i32.const {at}) {address})
         (i32.store offset=12 (i32.const {at}) {length})
         (i32.const {at})"
    )
}

/// A guest that proposes like this.
pub(crate) fn proposing(body: impl Into<String>) -> Guest {
    Guest { propose: body.into(), ..Guest::default() }
}

/// Little-endian numbers as the bytes of a data segment.
fn words(numbers: &[usize]) -> String {
    let bytes = numbers.iter().flat_map(|n| u32::try_from(*n).unwrap().to_le_bytes());
    escaped(&bytes.collect::<Vec<_>>())
}

/// The bytes of a data segment.
fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("\\{b:02x}")).collect()
}

/// The types of the world, and the names under which its functions may use them.
const TYPES: &str = r#"
  (type $context0 (record (field "decision-id" string) (field "now" u64) (field "namespace" string)
    (field "cluster" string) (field "config" string) (field "attributes" (list (tuple string string)))))
  (export $context "context" (type $context0))
  (type $refusal0 (variant (case "bad-config" string) (case "failed" string)))
  (export $refusal "refusal" (type $refusal0))
  (type $request0 (record (field "context" $context) (field "suffix" string)
    (field "default-domain" string) (field "allowed-domains" (list string))
    (field "taken" (list string)) (field "attempt" u32)))
  (export $request "request" (type $request0))
  (type $name0 (record (field "label" string) (field "domain" (option string))
    (field "ttl-seconds" (option u32))))
  (export $name "name" (type $name0))
  (type $description0 (record (field "name" string) (field "version" string)
    (field "summary" string) (field "config-schema" string)))
  (export $description "description" (type $description0))
  (type $issue0 (record (field "pointer" string) (field "problem" string)))
  (export $issue "issue" (type $issue0))
"#;

/// Memory, a table and allocation, apart from the guest: the host's functions need the memory first.
const LIBC: &str = r#"
  (core module $libc-code
    (memory (export "memory") PAGES)
    (table (export "table") 1 funcref)
    (global $next (mut i32) (i32.const 32768))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (local $at i32)
      REALLOC
      (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      (global.set $next (i32.add (local.get $at) (local.get 3)))
      (local.get $at)))
  (core instance $libc (instantiate $libc-code))
"#;

impl Guest {
    /// The component's binary form.
    pub(crate) fn wasm(&self) -> Vec<u8> {
        wat::parse_str(self.text()).unwrap_or_else(|e| panic!("{e}"))
    }

    fn text(&self) -> String {
        let Self { imports, interface, answer, .. } = self;
        let libc = LIBC.replace("PAGES", &self.pages.to_string()).replace("REALLOC", &self.realloc);
        let core = self.core();
        format!(
            r#"(component
  (import "capmaas:policy/host@{interface}" (instance $host
    (type $level0 (enum "debug" "info" "warn" "error"))
    (export "level" (type $level (eq $level0)))
    (export "log" (func (param "level" $level) (param "message" string)))))
  {imports} {TYPES} {libc}
  (core func $log (canon lower (func $host "log") (memory (core memory $libc "memory"))))
  {core}
  (func $describe (result $description)
    (canon lift (core func $guest "describe") (memory (core memory $libc "memory"))))
  (func $check-config (param "config" string) (result (result (error (list $issue))))
    (canon lift (core func $guest "check-config") (memory (core memory $libc "memory"))
      (realloc (core func $libc "realloc"))))
  (func $propose (param "request" $request) (result {answer})
    (canon lift (core func $guest "propose") (memory (core memory $libc "memory"))
      (realloc (core func $libc "realloc")) (post-return (core func $guest "post-return"))))
  (instance $metadata (export "description" (type $description)) (export "issue" (type $issue))
    (export "describe" (func $describe)) (export "check-config" (func $check-config)))
  (instance $naming (export "request" (type $request)) (export "name" (type $name))
    (export "propose" (func $propose)))
  (export "capmaas:policy/metadata@{interface}" (instance $metadata))
  (export "capmaas:policy/dns-naming@{interface}" (instance $naming)))"#
        )
    }

    /// The core module with the guest's own code.
    fn core(&self) -> String {
        let Self { propose, check_config, post_return, start, more, name, schema, .. } = self;
        let (text, no_utf8) = (at::TEXT, at::NO_UTF8);
        // The description: four pairs of address and length.
        let description =
            words(&[512, name.len(), 576, 5, 256, 16, at::SCHEMA as usize, schema.len()]);
        let (schema_at, schema) = (at::SCHEMA, escaped(schema.as_bytes()));
        format!(
            r#"(core module $code
    (import "libc" "memory" (memory 1))
    (import "host" "log" (func $log (param i32 i32 i32)))
    (data (i32.const 64) "{description}")
    (data (i32.const 512) "{name}")
    (data (i32.const 576) "1.0.0")
    (data (i32.const {text}) "sixteen-bytes-ok")
    (data (i32.const {no_utf8}) "\ff")
    (data (i32.const {schema_at}) "{schema}")
    {more}
    (func $start {start})
    (start $start)
    (func (export "describe") (result i32) (i32.const 64))
    (func (export "check-config") (param i32 i32) (result i32) {check_config})
    (func (export "post-return") (param i32) {post_return})
    (func $propose (export "propose") (param i32) (result i32) {propose}))
  (core instance $guest (instantiate $code
    (with "libc" (instance $libc))
    (with "host" (instance (export "log" (func $log))))))"#
        )
    }
}

/// A number as WebAssembly writes it.
pub(crate) fn unsigned(mut number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// A section of a module or component.
pub(crate) fn section(id: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![id];
    bytes.extend(unsigned(u32::try_from(content.len()).unwrap()));
    bytes.extend(content);
    bytes
}
