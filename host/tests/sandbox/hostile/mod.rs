//! A guest that misbehaves ends its own call, with a category that says how; everybody else goes on.

mod answers;
mod compile;
mod crowd;
mod load;
mod tables;

use capmaas::policy::{Choices, Engine, Policies};
use capmaas_core::policy::{Constraints, Name, Refused, Shortlisting};

use super::guest::{Guest, at, named, proposing};
use super::questions::{compiler, component, name, naming, refused, shortlist};

/// Asks until the call does not end by time, unless it has to: on a busy machine a guest may be stopped before it has gone
/// too far.
async fn ended(category: &str, mut ask: impl AsyncFnMut() -> Refused) -> Refused {
    let mut refused = ask().await;
    for _ in 0..20 {
        if refused.category != "timeout" || category == "timeout" {
            break;
        }
        refused = ask().await;
    }
    assert_eq!(refused.category, category, "{refused:?}");
    refused
}

/// Asks a guest that proposes like this; afterwards the engine still answers others.
async fn ends_with(category: &str, guest: Guest) -> String {
    let policies = naming(component(guest.wasm())).await.unwrap();
    let refused = ended(category, async || refused(&policies).await).await;
    let policy = refused.policy.expect("it says who gave no answer");
    assert_eq!(policy.name, "guest 1.0.0");
    assert!(refused.message.chars().count() <= 300, "{}", refused.message);
    let healthy = shortlist(&policies).await;
    assert_eq!(healthy, Shortlisting::Narrow(Constraints::default()));
    refused.message
}

#[tokio::test]
async fn an_endless_loop_is_cut_off() {
    let message = ends_with("timeout", proposing("(loop $again (br $again)) unreachable")).await;
    assert!(message.contains("did not answer within"), "{message}");
}

#[tokio::test]
async fn an_endless_loop_while_the_host_hands_over_the_question_is_cut_off() {
    // Only for something as large as a question, so that it passes the gates.
    let realloc = "(if (i32.gt_u (local.get 3) (i32.const 60)) (then (loop $again (br $again))))";
    ends_with("timeout", Guest { realloc: realloc.into(), ..Guest::default() }).await;
}

#[tokio::test]
async fn an_endless_loop_after_the_answer_is_cut_off() {
    let post_return = "(loop $again (br $again))".into();
    ends_with("timeout", Guest { post_return, ..Guest::default() }).await;
}

#[tokio::test]
async fn a_question_handed_over_out_of_memory_is_a_bad_answer() {
    let realloc = "(if (i32.gt_u (local.get 3) (i32.const 60)) (then (return (i32.const -8))))";
    ends_with("bad-answer", Guest { realloc: realloc.into(), ..Guest::default() }).await;
}

#[tokio::test]
async fn b115_growing_memory_ends_at_the_limit() {
    let bomb = "(loop $again (drop (memory.grow (i32.const 64))) (br $again)) unreachable";
    let message = ends_with("memory", proposing(bomb)).await;
    assert!(message.contains("64 MiB"), "{message}");
}

#[tokio::test]
async fn memory_that_a_guest_asked_for_in_vain_is_not_held_against_it() {
    // Two thousand pages would be too many, but beyond its own maximum it gets none of them.
    let Guest { propose, .. } = Guest::default();
    let asking = format!(
        "(local $left i32) (local.set $left (i32.const 2000))
         (loop $again (drop (memory.grow $small (i32.const 1)))
           (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1))))) {propose}"
    );
    let guest = Guest { more: "(memory $small 1 2)".into(), ..proposing(asking) };
    let policies = naming(component(guest.wasm())).await.unwrap();
    assert_eq!(name(&policies).await.unwrap().label, "a1b2c3");
}

#[tokio::test]
async fn the_tables_of_a_guest_are_counted_together() {
    let grow =
        |table: &str| format!("(drop (table.grow {table} (ref.null func) (i32.const 15000)))");
    let more = r#"(table $one (import "libc" "table") 1 funcref) (table $two 1 funcref)"#.into();
    let each = format!("{} {} unreachable", grow("$one"), grow("$two"));
    let message = ends_with("memory", Guest { more, ..proposing(each) }).await;
    assert!(message.contains("20000 table elements"), "{message}");
}

#[tokio::test]
async fn endless_recursion_overflows_the_guests_own_stack() {
    let deep = "(i32.add (i32.const 1) (call $propose (i32.add (local.get 0) (i32.const 1))))";
    let message = ends_with("memory", proposing(deep)).await;
    assert!(message.contains("stack"), "{message}");
}

#[tokio::test]
async fn what_cannot_be_executed_is_a_trap() {
    ends_with("trap", proposing("unreachable")).await;
    ends_with("trap", proposing("(i32.div_u (local.get 0) (i32.const 0))")).await;
    ends_with("trap", proposing("(i32.load (i32.const 0x7fffffff))")).await;
}

#[tokio::test]
async fn a_flood_of_log_lines_is_stopped() {
    let line = format!("(call $log (i32.const 0) (i32.const {}) (i32.const 0))", at::TEXT);
    let flood = format!("(loop $again {line} (br $again)) unreachable");
    ends_with("log", proposing(flood)).await;
}

#[tokio::test]
async fn b115_a_flood_of_log_text_is_stopped() {
    let line = format!("(call $log (i32.const 0) (i32.const {}) (i32.const 30000))", at::FREE);
    ends_with("log", proposing(format!("{line} {line} {line} unreachable"))).await;
}

#[tokio::test]
async fn a_log_level_that_does_not_exist_is_a_bad_answer() {
    let odd = format!("(call $log (i32.const 9) (i32.const {}) (i32.const 1))", at::TEXT);
    ends_with("bad-answer", proposing(format!("{odd} (i32.const {})", at::ANSWER))).await;
}

#[tokio::test]
async fn text_that_is_no_utf8_is_a_bad_answer() {
    let body = named(&format!("(i32.const {})", at::NO_UTF8), "(i32.const 1)");
    let message = ends_with("bad-answer", proposing(body)).await;
    assert!(message.contains("utf-8"), "{message}");
}

#[tokio::test]
async fn b111_a_huge_text_is_a_bad_answer() {
    // Eight megabytes, all of them the guest's own.
    let grow = "(drop (memory.grow (i32.const 160)))";
    let body = named("(i32.const 65536)", "(i32.const 8388608)");
    ends_with("bad-answer", proposing(format!("{grow} {body}"))).await;
}

#[tokio::test]
async fn b111_text_outside_of_memory_is_a_bad_answer() {
    let endless = "(i32.const 0xffffffff)";
    for (at, length) in [("(i32.const 0)", endless), (endless, "(i32.const 1)"), (endless, endless)]
    {
        ends_with("bad-answer", proposing(named(at, length))).await;
    }
    let body = named("(i32.const 65530)", "(i32.const 100)");
    ends_with("bad-answer", proposing(body)).await;
    ends_with("bad-answer", proposing(named("(i32.const -16)", "(i32.const 32)"))).await;
}

#[tokio::test]
async fn an_answer_of_no_known_case_is_a_bad_answer() {
    let body = format!("(i32.store (i32.const {0}) (i32.const 77)) (i32.const {0})", at::ANSWER);
    ends_with("bad-answer", proposing(body)).await;
}

#[tokio::test]
async fn a_refusal_comes_in_the_policys_own_words_without_control_characters() {
    let (answer, text) = (at::ANSWER, at::FREE);
    let body = format!(
        "(i32.store8 (i32.const {text}) (i32.const 27))
         (memory.copy (i32.const {}) (i32.const {}) (i32.const 16))
         (i32.store (i32.const {answer}) (i32.const 1))
         (i32.store offset=4 (i32.const {answer}) (i32.const 1))
         (i32.store offset=8 (i32.const {answer}) (i32.const {text}))
         (i32.store offset=12 (i32.const {answer}) (i32.const 17))
         (i32.const {answer})",
        text + 1,
        at::TEXT
    );
    assert_eq!(ends_with("failed", proposing(body)).await, "sixteen-bytes-ok");
}

#[tokio::test]
async fn b107_many_that_hang_at_once_hold_up_nobody_for_good() {
    let hanging = proposing("(loop $again (br $again)) unreachable").wasm();
    // Places belong to an engine: one of its own, so that other tests find theirs.
    let choices = Choices { dns_naming: component(hanging), ..Choices::default() };
    let policies = Policies::load(Engine::new().unwrap(), choices, compiler()).await.unwrap();
    // More than there are places: the rest waits for one.
    let all = futures::future::join_all((0..40).map(|_| refused(&policies))).await;
    assert_eq!(all.len(), 40);
    assert!(all.iter().all(|r| r.category == "timeout"), "{all:?}");
    assert_eq!(shortlist(&policies).await, Shortlisting::Narrow(Constraints::default()));
}

/// A runtime in a guest's language may take its time to start; each call begins with a fresh start.
#[tokio::test]
async fn b109_a_guest_that_starts_slowly_answers_every_time() {
    let start = "(local $left i32) (local.set $left (i32.const 1000000))
        (loop $again (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))";
    let policies =
        naming(component(Guest { start: start.into(), ..Guest::default() }.wasm())).await;
    let policies = policies.unwrap();
    for _ in 0..3 {
        assert_eq!(name(&policies).await.unwrap().label, "a1b2c3");
    }
}

#[tokio::test]
async fn nothing_is_kept_from_one_call_to_the_next() {
    // Counts in its memory, and would answer a longer name each time.
    let (count, text) = (at::SCRATCH, at::TEXT);
    let counting = format!(
        "(i32.store (i32.const {count}) (i32.add (i32.const 1) (i32.load (i32.const {count})))) {}",
        named(&format!("(i32.const {text})"), &format!("(i32.load (i32.const {count}))"))
    );
    let policies = naming(component(proposing(counting).wasm())).await.unwrap();
    for _ in 0..3 {
        let name = name(&policies).await.unwrap();
        assert_eq!(name, Name { label: "s".into(), domain: None, ttl_seconds: None });
    }
}

#[tokio::test]
async fn a_few_log_lines_harm_nobody() {
    let line = format!("(call $log (i32.const 1) (i32.const {}) (i32.const 16))", at::TEXT);
    let Guest { propose, .. } = Guest::default();
    let guest = proposing(format!("{line} {line} {propose}"));
    let policies = naming(component(guest.wasm())).await.unwrap();
    assert_eq!(name(&policies).await.unwrap().label, "a1b2c3");
}
