//! HTTP to one Ethereum endpoint, with a limit to what it may answer: an endpoint is not trusted,
//! and alloy's own transport keeps a whole answer in memory, however long it is.

use std::task::{Context, Poll};
use std::time::Duration;

use alloy::rpc::json_rpc::{RequestPacket, ResponsePacket};
use alloy::transports::http::reqwest::{Client, Error, Url};
use alloy::transports::{TransportError, TransportErrorKind, TransportFut};
use tower_service::Service;

/// Longest wait for one answer: an endpoint that hangs must not stop the follower for ever.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Most bytes of one answer. Parsed JSON takes some five times its text. Ranges of logs that are
/// above it are halved.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The transport of one endpoint.
#[derive(Debug, Clone)]
pub struct Transport {
    client: Client,
    url: Url,
}

impl Transport {
    /// A transport to `url`; connects on the first call.
    pub fn new(url: Url) -> Result<Self, Error> {
        let client = Client::builder().timeout(ANSWER_TIMEOUT).build()?;
        Ok(Self { client, url })
    }

    async fn send(self, request: RequestPacket) -> Result<ResponsePacket, TransportError> {
        let call = self.client.post(self.url).json(&request);
        let mut response = call.send().await.map_err(TransportErrorKind::custom)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(TransportErrorKind::custom)? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                let message = format!("the answer has more than {ANSWER_BYTES_MAX} bytes");
                return Err(TransportErrorKind::custom_str(&message));
            }
            body.extend_from_slice(&chunk);
        }
        match serde_json::from_slice(&body) {
            Ok(answer) => Ok(answer),
            Err(_) if !status.is_success() => {
                Err(TransportErrorKind::http_error(status.as_u16(), String::new()))
            }
            Err(error) => Err(TransportError::deser_err(error, "")),
        }
    }
}

impl Service<RequestPacket> for Transport {
    type Response = ResponsePacket;
    type Error = TransportError;
    type Future = TransportFut<'static>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: RequestPacket) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}
