//! An apiserver that reviews tokens, and can be told to fail.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

use super::apiserver::kubeconfig;

/// The token of each user is the name with this prefix.
const PREFIX: &str = "token-of-";

/// A running apiserver. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Reviewer {
    state: Arc<Mutex<State>>,
    pub(crate) kubeconfig: Arc<NamedTempFile>,
}

#[derive(Default)]
struct State {
    /// User, verb and path.
    allowed: Vec<[String; 3]>,
    /// The status of all answers from now on.
    fails_with: Option<u16>,
    /// The tokens, and the verbs and paths, that it was asked about.
    asked: Vec<String>,
}

impl Reviewer {
    /// One in which these users may do this with these paths.
    pub(crate) async fn start(allowed: &[[&str; 3]]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let kubeconfig = Arc::new(kubeconfig(listener.local_addr().unwrap()));
        let allowed = allowed.iter().map(|rule| rule.map(str::to_owned)).collect();
        let state = Arc::new(Mutex::new(State { allowed, ..State::default() }));
        let reviewer = Self { state, kubeconfig };
        tokio::spawn(serve(listener, reviewer.clone()));
        reviewer
    }

    /// The token of this user.
    pub(crate) fn token(user: &str) -> String {
        format!("{PREFIX}{user}")
    }

    /// Every answer is an error with this status from now on; `None` ends it.
    pub(crate) fn fails_with(&self, status: Option<u16>) {
        self.state.lock().unwrap().fails_with = status;
    }

    /// What it was asked about so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut review: Value = serde_json::from_slice(&body).unwrap();
        let mut state = self.state.lock().unwrap();
        if let Some(code) = state.fails_with {
            let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "told so"});
            return Ok(response(code, &status));
        }
        let spec = review["spec"].clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        review["status"] = match path.as_str() {
            "/apis/authentication.k8s.io/v1/tokenreviews" => {
                let token = text(&spec["token"]);
                state.asked.push(token.clone());
                match token.strip_prefix(PREFIX) {
                    Some(user) => json!({"authenticated": true, "user": {"username": user}}),
                    None => json!({"authenticated": false, "error": "nobody has it"}),
                }
            }
            "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                let attributes = &spec["nonResourceAttributes"];
                let rule = [text(&spec["user"]), text(&attributes["verb"]), text(&attributes["path"])];
                state.asked.push(rule[1..].join(" "));
                json!({"allowed": state.allowed.contains(&rule)})
            }
            other => panic!("{other}"),
        };
        Ok(response(201, &review))
    }
}

async fn serve(listener: TcpListener, reviewer: Reviewer) -> Infallible {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let reviewer = reviewer.clone();
        let service = service_fn(move |request| {
            let reviewer = reviewer.clone();
            async move { reviewer.answer(request).await }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

fn response(code: u16, body: &Value) -> Response<Full<Bytes>> {
    Response::builder().status(code).body(Full::from(body.to_string())).unwrap()
}
