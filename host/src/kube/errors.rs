use capmaas_core::{CallError, Category};
use kube::Error;

/// What a failed Kubernetes call means, in the words of `core`.
pub fn call_error(error: &Error) -> CallError {
    let (category, status, message) = match error {
        Error::Api(answer) => {
            let category = match answer.code {
                400 | 422 => Category::BadRequest,
                401 => Category::Unauthorized,
                403 => Category::Forbidden,
                404 => Category::NotFound,
                409 => Category::Conflict,
                429 | 502..=504 => Category::Unavailable,
                500..=599 => Category::Server,
                _ => Category::Malformed,
            };
            (category, Some(answer.code), answer.message.clone())
        }
        Error::SerdeError(_) => (Category::Malformed, None, "the answer cannot be read".into()),
        other if unresolved(other) => {
            (Category::Unreachable, None, "the server's name does not resolve".into())
        }
        other => (Category::Unknown, None, other.to_string()),
    };
    CallError { status, ..CallError::new(category, message) }
}

/// The resolver knows no such name, so nothing was sent. Neither kube nor hyper has a type for that.
fn unresolved(error: &Error) -> bool {
    anyhow::Chain::new(error).any(|cause| cause.to_string().contains("failed to lookup address"))
}
