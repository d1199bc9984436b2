//! Serves metrics in Prometheus' text form, on loopback only.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use crate::output::{CommandError, CommandResult, Exit};

/// Serves what `text` holds at `/metrics`, until the runtime ends; returns the bound address.
///
/// # Errors
/// If the address is not loopback or in use.
pub async fn serve(address: SocketAddr, text: Arc<Mutex<String>>) -> CommandResult<SocketAddr> {
    if !address.ip().is_loopback() {
        let message = format!("metrics are served on loopback only, not on {address}");
        return Err(CommandError::usage(message, "--metrics 127.0.0.1:26680"));
    }
    let failed = |error| {
        let message = format!("{address}: {error}");
        CommandError::new(Exit::Unreachable, "port_in_use", message, "choose another port")
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(answer(stream, Arc::clone(&text)));
                }
                // Out of file descriptors, for example: a scrape is missed.
                Err(error) => {
                    tracing::warn!(%error, "metrics");
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                }
            }
        }
    });
    Ok(bound)
}

/// One connection.
async fn answer(stream: TcpStream, text: Arc<Mutex<String>>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let found = request.uri().path() == "/metrics";
        let body = if found {
            text.lock().unwrap_or_else(PoisonError::into_inner).clone()
        } else {
            String::new()
        };
        let status = if found { StatusCode::OK } else { StatusCode::NOT_FOUND };
        let response = Response::builder()
            .status(status)
            .header(CONTENT_TYPE, "text/plain; version=0.0.4")
            .body(Full::new(Bytes::from(body)))
            .unwrap_or_default();
        async move { Ok::<_, Infallible>(response) }
    });
    // The timer ends connections whose request does not come.
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "metrics");
    }
}
