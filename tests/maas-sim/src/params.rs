//! MAAS's ways of reading parameters: two kinds of booleans, integers, and which of repeated keys counts.

use crate::reply::Reply;
use crate::request::Pairs;

/// The value of a key; of several the last, as Django's QueryDict gives it.
pub(crate) fn form_value(pairs: &Pairs, key: &str) -> Option<String> {
    pairs.iter().rfind(|(k, _)| k == key).map(|(_, v)| v.clone())
}

/// All values of a key.
pub(crate) fn form_values(pairs: &Pairs, key: &str) -> Vec<String> {
    pairs.iter().filter(|(k, _)| k == key).map(|(_, v)| v.clone()).collect()
}

/// formencode's StringBool: `true/t/yes/y/on/1` and their opposites in any case; blank is unset; else 400.
pub(crate) fn stringbool(pairs: &Pairs, key: &str) -> Result<Option<bool>, Reply> {
    let Some(text) = form_value(pairs, key) else {
        return Ok(None);
    };
    match text.trim().to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(Some(true)),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(Some(false)),
        _ => Err(Reply::text(400, &format!("Invalid {key}: Value should be 'true' or 'false'"))),
    }
}

/// Django's BooleanField: only blank and `false` are false; `0` and `nope` are true.
pub(crate) fn checkbox(pairs: &Pairs, key: &str) -> bool {
    form_value(pairs, key).is_some_and(|v| !v.is_empty() && !v.eq_ignore_ascii_case("false"))
}

/// formencode's Int.
pub(crate) fn int(pairs: &Pairs, key: &str) -> Result<Option<i64>, Reply> {
    match form_value(pairs, key).filter(|v| !v.is_empty()) {
        None => Ok(None),
        Some(text) => match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => {
                Err(Reply::text(400, &format!("Invalid {key}: Please enter an integer value")))
            }
        },
    }
}

/// A string as Python's `repr` writes it.
pub(crate) fn repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}
