//! axum and tower: a layer that serves one request at a time for each path, over all processes.
//!
//! A handler takes the fencing token as `Extension<FencingToken>`. A request that would wait for longer than `PATIENCE` is
//! answered with 409, one that Redis cannot serve with 503. Work whose lease is lost is dropped at its next `.await`.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold::{Error, ErrorKind, Locker};
use tower::{Layer, Service};

/// Shorter than the patience of clients and proxies.
const PATIENCE: Duration = Duration::from_secs(2);

/// `Router::new().route("/accounts/{id}", post(book)).layer(OneByOne(locker))`
#[derive(Clone)]
pub struct OneByOne(pub Locker);

/// What the layer makes of a service.
#[derive(Clone)]
pub struct Locked<S> {
    service: S,
    locker: Locker,
}

impl<S> Layer<S> for OneByOne {
    type Service = Locked<S>;

    fn layer(&self, service: S) -> Locked<S> {
        Locked { service, locker: self.0.clone() }
    }
}

impl<S> Service<Request> for Locked<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        // The service that is ready is this one, and not its clone.
        let next = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, next);
        let lock = self.locker.lock(request.uri().path()).wait_at_most(PATIENCE);
        Box::pin(async move {
            let guard = match lock.await {
                Ok(guard) => guard,
                Err(error) => return Ok(refusal(&error)),
            };
            request.extensions_mut().insert(guard.fence());
            match guard.run(service.call(request)).await {
                // The release is sent, and not waited for.
                Ok(Ok(response)) => Ok(response),
                Err(lost) => Ok(refusal(&lost)),
            }
        })
    }
}

fn refusal(error: &Error) -> Response {
    let status = match error.kind() {
        ErrorKind::Contended => StatusCode::CONFLICT,
        // Work whose lease was lost may have been done: no reason to try again.
        ErrorKind::Misuse | ErrorKind::Auth | ErrorKind::Lost => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, error.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::routing::post;
    use axum::{Extension, Router};
    use leasehold::FencingToken;
    use leasehold::testing::Server;
    use tower::ServiceExt;

    use super::*;

    async fn book(Extension(token): Extension<FencingToken>) -> String {
        token.to_string()
    }

    async fn ask(routes: &Router, path: &str) -> (StatusCode, String) {
        let request = Request::post(path).body(Body::empty()).unwrap();
        let Ok(response) = routes.clone().oneshot(request).await;
        let status = response.status();
        let text = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8_lossy(&text).into_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_path_is_served_to_one_at_a_time_under_rising_tokens() {
        let server = Server::new();
        let locker = Locker::connect(&server.url()).await.unwrap();
        let other = Locker::connect(&server.url()).await.unwrap();
        let routes = Router::new().route("/accounts/{id}", post(book)).layer(OneByOne(locker));
        let (_, first) = ask(&routes, "/accounts/1").await;
        let (_, second) = ask(&routes, "/accounts/1").await;
        assert!(second.parse::<u64>().unwrap() > first.parse::<u64>().unwrap());

        let held = other.lock("/accounts/1").label("other").await.unwrap();
        let (status, text) = ask(&routes, "/accounts/1").await;
        assert!(status == StatusCode::CONFLICT && text.contains("\"other\""), "{text}");
        assert_eq!(ask(&routes, "/accounts/2").await.0, StatusCode::OK);
        held.release().await.unwrap();

        server.stop();
        let (status, text) = ask(&routes, "/accounts/1").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    }
}
