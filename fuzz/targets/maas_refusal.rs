//! A refusal: status in three digits, `h` for a page, `e` for an escaped secret, then the body.
#![no_main]

#[allow(dead_code)]
#[path = "../../host/tests/properties/answers.rs"]
mod answers;

use capmaas::maas::Answer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((head, body)) = data.split_at_checked(4) else { return };
    let status =
        head[..3].iter().fold(0u16, |sum, b| sum * 10 + u16::from(b.wrapping_sub(b'0') % 10));
    let html = head[3] == b'h';
    let retry_after = body.first_chunk().map(|b| u64::from_le_bytes(*b));
    answers::refuses(&Answer {
        status,
        html,
        retry_after,
        body: body.to_vec(),
        ..Answer::default()
    });
    let text = String::from_utf8_lossy(body);
    let (before, after) = text.split_once('|').unwrap_or((&text, ""));
    for form in [false, true] {
        let body = answers::with_secret(before, after, head[3] == b'e', form);
        answers::refuses(&Answer { status, html, retry_after, body, ..Answer::default() });
    }
});
