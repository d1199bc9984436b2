//! The least HTTP client: HTTP/1.0, so that no answer comes in chunks.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Longer than `broadcast_tx_commit` waits.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: String,
}

impl Reply {
    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// GETs `http://127.0.0.1:PORT/PATH`; spaces and quotes in `path` are escaped.
///
/// # Errors
/// Nobody answers.
pub fn get(port: u16, path: &str) -> io::Result<Reply> {
    let path = path.replace('"', "%22").replace(' ', "%20");
    exchange(port, &format!("GET /{path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"))
}

/// POSTs `body` to `http://127.0.0.1:PORT/PATH`.
///
/// # Errors
/// Nobody answers.
pub fn post(port: u16, path: &str, content_type: &str, body: &str) -> io::Result<Reply> {
    let length = body.len();
    exchange(
        port,
        &format!(
            "POST /{path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: {content_type}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ),
    )
}

fn exchange(port: u16, request: &str) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(request.as_bytes())?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_default();
    Ok(Reply { status, body: body.to_owned() })
}
