//! Authorization at the metrics and the admin address: a request needs a client certificate, or a bearer token whose
//! user may use its path.
//!
//! TLS has already verified a certificate, so that it is there is enough. A token is [reviewed](Reviews) by the apiserver:
//! the verb is `get` for reads and otherwise the HTTP method in lower case, as in the apiserver's own check of paths such
//! as `/metrics`. Probes need nothing, because kubelet has neither.

mod cache;
mod reviews;

use std::{borrow::Cow, fmt::Display, sync::Arc};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{AUTHORIZATION, WWW_AUTHENTICATE},
        request::Parts,
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use extender_apiserver::bounded;

pub use self::reviews::Reviews;
use extender_gateway_door::{Address, PageCaller};
use extender_gateway_observe::Metrics;
use extender_gateway_pace::fair_queue::Flow;
use extender_gateway_pace::rate_limited_log::RateLimitedLog;
use extender_gateway_settings::{Authorization, PageTls};

use self::{cache::Review, reviews::ReviewError};

/// What precedes the paths of the admin address in a review. kube-apiserver serves `/debug` as well, and evaluates the same
/// permissions: whoever may read decisions must not thereby read its profiles or change its log level.
const ADMIN_PREFIX: &str = "/extender-gateway";
/// The paths of the metrics address that kubelet probes.
const PROBES: &[&str] = &["/livez", "/readyz"];

/// Makes a browser ask for a password.
const BASIC: &str =
    "Basic realm=\"extender-gateway: any user, and a token as the password\", charset=\"UTF-8\"";

/// Which requests an address answers.
#[derive(Debug)]
pub struct Authorizer {
    address: Address,
    /// Whether a client certificate is enough.
    takes_certificates: bool,
    /// `None`: no token is accepted.
    reviews: Option<Arc<Reviews>>,
    /// Limits log lines about refused requests, by cause.
    refused: RateLimitedLog<&'static str>,
    /// Where they are counted.
    metrics: Arc<Metrics>,
}

/// The user of a request with a token, in its extensions.
#[derive(Debug, Clone)]
pub struct AuthorizedUser(pub Arc<str>);

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("no client certificate; use one that is signed by a CA in {0}.tls.clientCAFile")]
    NoCertificate(&'static str),
    #[error("no bearer token; send the header `Authorization: Bearer TOKEN`{0}")]
    NoToken(&'static str),
    #[error(
        "the apiserver does not accept the bearer token; it may have expired, or be one of another cluster"
    )]
    InvalidToken,
    #[error(
        "user {user:?} may not {verb} {path}; bind it to a ClusterRole with the rule \
         {{nonResourceURLs: [{path:?}], verbs: [{verb}]}}"
    )]
    NotAllowed { user: Arc<str>, verb: &'static str, path: String },
    #[error("no request with this method is authorized")]
    Method,
    #[error("the apiserver cannot be asked about the bearer token; see the gateway's log")]
    NotReviewed(#[source] ReviewError),
}

/// The routes behind the authorization of their address, if it has one.
pub fn protected(
    routes: Router,
    address: Address,
    tls: Option<&PageTls>,
    authorization: Authorization,
    reviews: &Arc<Reviews>,
    metrics: &Arc<Metrics>,
) -> Router {
    let takes_certificates = tls.is_some_and(|tls| tls.server().clients.is_some());
    let reviews = (authorization == Authorization::Kubernetes).then(|| Arc::clone(reviews));
    if !takes_certificates && reviews.is_none() {
        return routes;
    }
    let refused = RateLimitedLog::default();
    let metrics = Arc::clone(metrics);
    let authorizer = Authorizer { address, takes_certificates, reviews, refused, metrics };
    routes.layer(middleware::from_fn_with_state(Arc::new(authorizer), authorize))
}

async fn authorize(State(authorizer): State<Arc<Authorizer>>, request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    match authorizer.check(&head).await {
        Ok(user) => {
            if let Some(user) = user {
                head.extensions.insert(AuthorizedUser(user));
            }
            next.run(Request::from_parts(head, body)).await
        }
        Err(refusal) => {
            let labels = [authorizer.address.as_str(), refusal.cause()];
            authorizer.metrics.process().unauthorized_requests.add(labels, 1);
            authorizer.log(&head, &refusal);
            refusal.into_response(authorizer.takes_passwords(&head.method))
        }
    }
}

impl Authorizer {
    /// The user of the token, if the request needs one.
    async fn check(&self, request: &Parts) -> Result<Option<Arc<str>>, Refusal> {
        let path = request.uri.path();
        let is_probe = self.address == Address::Metrics && PROBES.contains(&path);
        let caller = request.extensions.get::<PageCaller>();
        let has_certificate = caller.is_some_and(|caller| caller.certificate.is_some());
        if is_probe || (self.takes_certificates && has_certificate) {
            return Ok(None);
        }
        let Some(reviews) = &self.reviews else {
            return Err(Refusal::NoCertificate(self.address.as_str()));
        };
        let or = if self.takes_certificates { ", or use a client certificate" } else { "" };
        let token = self.token(request).ok_or(Refusal::NoToken(or))?;
        let verb = verb(&request.method).ok_or(Refusal::Method)?;
        let path = reviewed_path(self.address, path);
        let flow = caller.map_or(Flow::Own, |caller| Flow::of_address(caller.address.ip()));
        match reviews.review(&token, verb, &path, flow).await.map_err(Refusal::NotReviewed)? {
            Review::Allowed { user } => Ok(Some(user)),
            Review::NotAllowed { user } => Err(Refusal::NotAllowed { user, verb, path: bounded(&path) }),
            Review::Unauthenticated => Err(Refusal::InvalidToken),
        }
    }

    /// Whether a token may be sent as the password of the scheme `Basic`, which browsers ask for: they show the page at the
    /// admin address. Not for changes, because a browser also sends it with requests that another site causes.
    fn takes_passwords(&self, method: &Method) -> bool {
        self.address == Address::Admin && matches!(*method, Method::GET | Method::HEAD)
    }

    /// The token of a request that has exactly one; `None` also for what cannot be a token.
    fn token<'r>(&self, request: &'r Parts) -> Option<Cow<'r, str>> {
        let (scheme, value) = credentials(&request.headers)?;
        let token = if scheme.eq_ignore_ascii_case("bearer") {
            Cow::Borrowed(value)
        } else if scheme.eq_ignore_ascii_case("basic") && self.takes_passwords(&request.method) {
            Cow::Owned(password(value)?)
        } else {
            return None;
        };
        let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then_some(token)
    }

    fn log(&self, request: &Parts, refusal: &Refusal) {
        let Some(similar) = self.refused.permit_of(refusal.cause()) else { return };
        let (address, path) = (self.address.as_str(), bounded(request.uri.path()));
        let caller = request.extensions.get::<PageCaller>().map(|caller| caller.address);
        let caller = caller.map(tracing::field::display);
        let why: &dyn Display = match refusal {
            Refusal::NotReviewed(why) => why,
            refusal => refusal,
        };
        tracing::warn!(address, caller, path, similar, "request refused: {why}");
    }
}

/// The path that a user needs the permission for. `/metrics` is that of every component, and one permission for it is meant
/// for all.
fn reviewed_path(address: Address, path: &str) -> String {
    let prefix = if address == Address::Admin { ADMIN_PREFIX } else { "" };
    format!("{prefix}{path}")
}

/// The scheme and the value of the only header `Authorization`.
fn credentials(headers: &HeaderMap) -> Option<(&str, &str)> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(credentials), None) = (values.next(), values.next()) else { return None };
    let (scheme, value) = credentials.to_str().ok()?.split_once(' ')?;
    Some((scheme, value.trim_matches(' ')))
}

/// The password of the scheme `Basic` (RFC 7617), with any user name.
fn password(value: &str) -> Option<String> {
    let user_and_password = String::from_utf8(BASE64_STANDARD.decode(value).ok()?).ok()?;
    user_and_password.split_once(':').map(|(_, password)| password.to_owned())
}

/// The verb that a user needs for this method.
fn verb(method: &Method) -> Option<&'static str> {
    match *method {
        Method::GET | Method::HEAD => Some("get"),
        Method::POST => Some("post"),
        Method::PUT => Some("put"),
        Method::PATCH => Some("patch"),
        Method::DELETE => Some("delete"),
        Method::OPTIONS => Some("options"),
        _ => None,
    }
}

impl Refusal {
    /// One word for each kind.
    fn cause(&self) -> &'static str {
        match self {
            Self::NoCertificate(_) => "no_certificate",
            Self::NoToken(_) => "no_token",
            Self::InvalidToken => "invalid_token",
            Self::NotAllowed { .. } => "not_allowed",
            Self::Method => "method",
            Self::NotReviewed(_) => "not_reviewed",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::NoToken(_) | Self::InvalidToken => StatusCode::UNAUTHORIZED,
            // 401 would have to name a scheme of the header `Authorization`.
            Self::NoCertificate(_) | Self::NotAllowed { .. } => StatusCode::FORBIDDEN,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotReviewed(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The response; a browser may then ask for a user name and a token as the password.
    fn into_response(self, takes_passwords: bool) -> Response {
        let body = Json(serde_json::json!({ "error": self.to_string() }));
        let mut response = (self.status(), body).into_response();
        let challenge = match self {
            Self::NoToken(_) => Some("Bearer"),
            Self::InvalidToken => Some("Bearer error=\"invalid_token\""),
            _ => None,
        };
        if let Some(challenge) = challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            if takes_passwords {
                response.headers_mut().append(WWW_AUTHENTICATE, HeaderValue::from_static(BASIC));
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_of(address: Address, method: Method, values: &[&[u8]]) -> Option<String> {
        let authorizer = Authorizer {
            address,
            takes_certificates: false,
            reviews: None,
            refused: RateLimitedLog::default(),
            metrics: Arc::new(Metrics::new()),
        };
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = method;
        for value in values {
            head.headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        }
        authorizer.token(&head).map(Cow::into_owned)
    }

    fn token(values: &[&str]) -> Option<String> {
        let values: Vec<_> = values.iter().map(|value| value.as_bytes()).collect();
        token_of(Address::Metrics, Method::GET, &values)
    }

    #[test]
    fn a_request_has_one_token_or_none() {
        for values in [&["Bearer a.b-c_d~+/="] as &[_], &["bearer  a.b-c_d~+/= "], &["BEARER a.b-c_d~+/="]] {
            assert_eq!(token(values).as_deref(), Some("a.b-c_d~+/="), "{values:?}");
        }
        for values in [
            &[] as &[_],
            &[""],
            &["Bearer"],
            &["Bearer "],
            &["Bearer a b"],
            &["Bearer a\tb"],
            &["Basic YTpi"],
            &["Bearera"],
            &["Bearer a", "Bearer b"],
        ] {
            assert_eq!(token(values), None, "{values:?}");
        }
        assert_eq!(token_of(Address::Metrics, Method::GET, &[b"Bearer \xff"]), None);
    }

    #[test]
    fn a_browser_sends_a_token_as_a_password_to_read_from_the_admin_address() {
        let basic = |address, method, text: &[u8]| {
            token_of(address, method, &[format!("Basic {}", BASE64_STANDARD.encode(text)).as_bytes()])
        };
        let read = |text: &[u8]| basic(Address::Admin, Method::GET, text);
        assert_eq!(read(b"me:a.b-c").as_deref(), Some("a.b-c"));
        assert_eq!(read(b":a:b").as_deref(), Some("a:b"), "a user name has no colon");
        for text in [b"" as &[u8], b"me", b"me:", b"me:a b", b"me:\xff"] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(basic(Address::Admin, Method::POST, b"me:a"), None);
        assert_eq!(basic(Address::Metrics, Method::GET, b"me:a"), None);
        assert_eq!(token_of(Address::Admin, Method::GET, &[b"Basic a.b"]), None, "no base64");
    }

    #[test]
    fn permissions_at_the_admin_address_are_none_at_the_apiserver() {
        assert_eq!(reviewed_path(Address::Admin, "/debug/flags/v"), "/extender-gateway/debug/flags/v");
        assert_eq!(reviewed_path(Address::Metrics, "/metrics"), "/metrics");
    }

    #[test]
    fn reads_are_get_and_changes_are_their_method() {
        let verbs = ["GET", "HEAD", "POST", "PUT", "DELETE"].map(|name| verb(&name.parse().unwrap()));
        assert_eq!(verbs, ["get", "get", "post", "put", "delete"].map(Some));
        assert_eq!(verb(&"BREW".parse().unwrap()), None);
        assert_eq!(verb(&"get".parse().unwrap()), None, "methods are case-sensitive");
    }

    #[test]
    fn a_refusal_names_the_user_the_verb_the_path_and_the_rule() {
        let (user, path) = ("system:serviceaccount:a:b".into(), "/metrics".to_owned());
        let refusal = Refusal::NotAllowed { user, verb: "get", path };
        let told = "user \"system:serviceaccount:a:b\" may not get /metrics; bind it to a ClusterRole with the rule \
                    {nonResourceURLs: [\"/metrics\"], verbs: [get]}";
        assert_eq!((refusal.to_string().as_str(), refusal.status().as_u16()), (told, 403));
    }
}
