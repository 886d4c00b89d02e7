//! Many memories and many tables: too many at once are refused at load, too much of them in a call.

use super::super::guest::{Guest, proposing};
use super::super::questions::{component, name, naming};
use super::ends_with;

fn many(count: usize, item: &str) -> String {
    item.repeat(count)
}

async fn refused_at_load(guest: Guest, words: &str) {
    let error = naming(component(guest.wasm())).await.err().expect("it must not load");
    let text = format!("{error:#}");
    assert!(text.contains("guest.wasm cannot be loaded") && text.contains(words), "{text}");
}

#[tokio::test]
async fn a_few_memories_and_tables_in_one_module_are_nobodys_business() {
    let more = many(2, "(memory 1)") + &many(4, "(table 10 funcref)");
    let policies = naming(component(Guest { more, ..Guest::default() }.wasm())).await.unwrap();
    assert_eq!(name(&policies).await.unwrap().label, "a1b2c3");
}

#[tokio::test]
async fn many_memories_are_refused_at_load() {
    refused_at_load(Guest { more: many(50, "(memory 1)"), ..Guest::default() }, "memories").await;
}

#[tokio::test]
async fn many_tables_are_refused_at_load() {
    let more = many(50, "(table 1 funcref)");
    refused_at_load(Guest { more, ..Guest::default() }, "tables").await;
}

#[tokio::test]
async fn many_modules_with_a_memory_or_a_table_each_are_refused_at_load() {
    for item in ["(memory 1)", "(table 1 funcref)"] {
        let imports: String = (0..20)
            .map(|n| {
                format!("(core module $more{n} {item}) (core instance (instantiate $more{n}))")
            })
            .collect();
        refused_at_load(Guest { imports, ..Guest::default() }, "").await;
    }
}

#[tokio::test]
async fn a_table_larger_than_any_may_be_is_refused_at_load() {
    let more = "(table 10000000 funcref)".into();
    refused_at_load(Guest { more, ..Guest::default() }, "table").await;
}

#[tokio::test]
async fn the_memories_of_a_guest_are_counted_together() {
    // Forty megabytes each: one of them would be allowed.
    let more = "(memory $one 1) (memory $two 1)".into();
    let body = "(drop (memory.grow $one (i32.const 640))) (drop (memory.grow $two (i32.const 640)))
                unreachable";
    let message = ends_with("memory", Guest { more, ..proposing(body) }).await;
    assert!(message.contains("64 MiB"), "{message}");
}
