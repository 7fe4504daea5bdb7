//! From the bytes of a body to its request.

use shapewise::request::json::{self, Bodied};
use shapewise::serve::body;

/// The request; `None` if it is refused.
pub fn read<R: Bodied>(bytes: &[u8]) -> Option<R> {
    let body = body::value(bytes).ok()?;
    Some(json::body(body).ok()?.0)
}
