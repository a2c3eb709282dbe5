//! Asks who has a bearer token, and what that user may do.

use k8s_openapi::{
    Resource,
    api::{
        authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
        authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    },
};
use kube::{Client, api::PostParams, core::Request};
use serde::{Serialize, de::DeserializeOwned};

use crate::request::{RequestError, read};

/// The largest answer in bytes. A user may be in thousands of groups.
const LARGEST_ANSWER: usize = 1 << 20;

/// The user that has this token; `None` if the apiserver accepts it from nobody.
///
/// # Errors
/// There is no usable answer. The gateway's account needs the verb `create` for `tokenreviews`.
pub async fn user_of(client: &Client, token: &str) -> Result<Option<UserInfo>, RequestError> {
    let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
    let review: TokenReview = created(client, &TokenReview { spec, ..TokenReview::default() }).await?;
    let status = review.status.unwrap_or_default();
    let user = status.user.filter(|_| status.authenticated == Some(true));
    Ok(user.filter(|user| user.username.as_ref().is_some_and(|name| !name.is_empty())))
}

/// Whether this user may do this with a path that belongs to no resource of the API. Mirrors the apiserver's own check of
/// such paths.
///
/// # Errors
/// There is no usable answer. The gateway's account needs the verb `create` for `subjectaccessreviews`.
pub async fn may(client: &Client, user: &UserInfo, verb: &str, path: &str) -> Result<bool, RequestError> {
    let UserInfo { extra, groups, uid, username } = user.clone();
    let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
    let spec = SubjectAccessReviewSpec {
        non_resource_attributes: Some(attributes),
        user: username,
        groups,
        uid,
        extra,
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let review: SubjectAccessReview = created(client, &review).await?;
    Ok(review.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
}

/// Creates a review, which exists only in its answer.
async fn created<R>(client: &Client, review: &R) -> Result<R, RequestError>
where
    R: Resource + Serialize + DeserializeOwned,
{
    let reviews = Request::new(format!("/apis/{}/{}", R::API_VERSION, R::URL_PATH_SEGMENT));
    let json = serde_json::to_vec(review).expect("texts can be written to memory");
    let answer = read(client, reviews.create(&PostParams::default(), json), LARGEST_ANSWER).await?;
    serde_json::from_slice(&answer).map_err(|error| {
        // The answer may contain the token.
        RequestError::Failed(format!("the answer is no {} (line {})", R::KIND, error.line()))
    })
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// A client whose apiserver answers one request: to this path, with this spec.
    fn answering(path: &'static str, spec: Value, answer: Value) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let (spec, answer) = (spec.clone(), answer.to_string());
            async move {
                assert_eq!((request.method().as_str(), request.uri().path()), ("POST", path));
                let json = request.into_body().collect_bytes().await.unwrap();
                assert_eq!(serde_json::from_slice::<Value>(&json).unwrap()["spec"], spec);
                let response = Response::builder().status(201).body(Body::from(answer.into_bytes()));
                Ok::<_, std::io::Error>(response.expect("a response"))
            }
        });
        Client::new(service, "default")
    }

    async fn user_with(status: Value) -> Result<Option<UserInfo>, RequestError> {
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let answer = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {},
            "spec": {"token": "t"}, "status": status,
        });
        user_of(&answering(path, json!({"token": "t"}), answer), "t").await
    }

    #[tokio::test]
    async fn a_user_must_be_authenticated_and_have_a_name() {
        let user = json!({"username": "a", "groups": ["g"], "uid": "u", "extra": {"k": ["v"]}});
        let found = user_with(json!({"authenticated": true, "user": user})).await.unwrap().unwrap();
        assert_eq!((found.username.as_deref(), found.groups), (Some("a"), Some(vec!["g".to_owned()])));
        for status in [
            json!({"authenticated": false, "user": user}),
            json!({"user": user}),
            json!({"authenticated": true}),
            json!({"authenticated": true, "user": {"username": "", "groups": ["system:masters"]}}),
            json!({"error": "no such token"}),
            json!({}),
        ] {
            assert_eq!(user_with(status.clone()).await, Ok(None), "{status}");
        }
    }

    #[tokio::test]
    async fn a_user_must_be_allowed_and_not_denied() {
        let user = UserInfo {
            username: Some("a".to_owned()),
            groups: Some(vec!["g".to_owned()]),
            uid: Some("u".to_owned()),
            extra: Some([("k".to_owned(), vec!["v".to_owned()])].into()),
        };
        for (status, expected) in [
            (json!({"allowed": true}), true),
            (json!({"allowed": true, "denied": true}), false),
            (json!({"allowed": false}), false),
            (json!(null), false),
        ] {
            let spec = json!({
                "user": "a", "groups": ["g"], "uid": "u", "extra": {"k": ["v"]},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            });
            let answer = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
                "spec": spec, "status": status,
            });
            let client = answering("/apis/authorization.k8s.io/v1/subjectaccessreviews", spec, answer);
            assert_eq!(may(&client, &user, "get", "/metrics").await, Ok(expected), "{status}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_no_review_is_an_error_without_the_token() {
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let client = answering(path, json!({"token": "secret"}), json!({"spec": "secret"}));
        let error = user_of(&client, "secret").await.unwrap_err().to_string();
        assert_eq!(error, "the answer is no TokenReview (line 1)");
    }
}
