//! `GET /`: a page for browsers. One file without external parts, which reads the JSON of the other routes.
//!
//! Reasons and names in that JSON are untrusted. The page writes them as text only, and the policy in its headers lets
//! nothing run but the page's own script.

use axum::{
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_FRAME_OPTIONS},
    },
    response::{IntoResponse, Response},
};
use rustls::crypto::ring;

use crate::error_response;

const PAGE: &str = include_str!("page.html");
/// The place of the nonce in [`PAGE`].
const PLACE: &str = "NONCE-OF-THE-RESPONSE";

/// The page.
pub(super) async fn show() -> Response {
    let Some((nonce, policy)) = policy() else {
        return error_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            "no random numbers from the operating system",
        );
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, policy),
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, PAGE.replace(PLACE, &nonce)).into_response()
}

/// A nonce for one response, and the policy that allows the script and the style with it.
fn policy() -> Option<(String, HeaderValue)> {
    let mut random = [0; 16];
    ring::default_provider().secure_random.fill(&mut random).ok()?;
    let nonce = format!("{:032x}", u128::from_be_bytes(random));
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    Some((nonce, HeaderValue::try_from(policy).ok()?))
}
