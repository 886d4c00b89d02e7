//! The figures for people.

use serde_json::Value;

/// Prints every number beside its key, and what is aimed at where that is known.
pub(crate) fn print(summary: &Value) {
    /// What is aimed at: key, and the most that is welcome.
    const AIMS: [(&str, f64); 14] = [
        ("sandbox_us", 15.0),
        ("rank_vs_webhook", 0.25),
        ("deadline_late_ms", 2.0),
        ("start_s", 0.5),
        ("provision.100.cpu_s", 0.9),
        ("provision.100.rss_mib", 48.0),
        ("provision.100.maas_calls_per_machine", 7.0),
        ("provision.100.wall_s", 33.0),
        ("provision.100.fds", 64.0),
        ("idle.maas_writes_per_min", 0.0),
        ("idle.kube_writes_per_min", 0.0),
        ("idle.maas_reads_per_machine_per_min", 0.25),
        ("idle.fds", 64.0),
        ("idle.rss_mib", 48.0),
    ];
    let mut rows = vec![];
    numbers(summary, "", &mut rows);
    println!("| figure | measured | aim |\n|---|---|---|");
    for (key, value) in rows {
        let aim = AIMS.iter().find(|(of, _)| *of == key).map(|(_, aim)| *aim);
        let shown = aim.map_or(String::new(), |aim| {
            format!("≤ {aim}{}", if value > aim { " (missed)" } else { "" })
        });
        println!("| {key} | {value:.2} | {shown} |");
    }
}

fn numbers(value: &Value, key: &str, rows: &mut Vec<(String, f64)>) {
    if let Some(number) = value.as_f64() {
        rows.push((key.to_owned(), number));
    }
    // Calls by kind are for the file.
    for (name, inner) in
        value.as_object().into_iter().flatten().filter(|(n, _)| !n.ends_with("_calls"))
    {
        let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
        numbers(inner, &key, rows);
    }
}
