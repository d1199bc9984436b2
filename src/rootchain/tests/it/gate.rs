//! A gate before an anvil: each JSON-RPC call goes through, or fails as a rule of the test says.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use plasma_rootchain::ethereum::Ethereum;
use serde_json::{Value, json};

use crate::anvil::Anvil;

/// What becomes of a call.
pub enum Verdict {
    /// It goes through.
    Pass,
    /// It goes through, and its result is changed on the way back.
    Edit(fn(&mut Value)),
    /// It goes through, and the answer is lost.
    LoseAnswer,
    /// It does not go through; the caller gets this result.
    Answer(Value),
    /// It does not go through; the caller gets a JSON-RPC error.
    Error(&'static str),
    /// It does not go through; the caller gets this HTTP status.
    Status(u16),
    /// It does not go through, and nothing is answered while the gate stands.
    Hold,
}

type Rule = Box<dyn Fn(&str, &Value) -> Verdict + Send>;

struct State {
    upstream: u16,
    rule: Mutex<Rule>,
    calls: Mutex<Vec<(String, Value)>>,
    held: Mutex<Vec<TcpStream>>,
}

/// A gate; all calls pass until a rule is set.
pub struct Gate {
    state: Arc<State>,
    url: String,
}

impl Gate {
    pub fn before(anvil: &Anvil) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            upstream: anvil.port(),
            rule: Mutex::new(Box::new(|_, _| Verdict::Pass)),
            calls: Mutex::default(),
            held: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        // The threads end with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(&state, stream));
            }
        });
        Self { state, url }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn ethereum(&self) -> Ethereum {
        Ethereum::new(&self.url).unwrap()
    }

    /// Sets what becomes of each call, by method and parameters.
    pub fn rule(&self, rule: impl Fn(&str, &Value) -> Verdict + Send + 'static) {
        *self.state.rule.lock().unwrap() = Box::new(rule);
    }

    /// Sets what becomes of one method's calls; all others pass.
    pub fn on(&self, method: &'static str, verdict: impl Fn() -> Verdict + Send + 'static) {
        self.rule(move |called, _| if called == method { verdict() } else { Verdict::Pass });
    }

    pub fn open(&self) {
        self.rule(|_, _| Verdict::Pass);
    }

    /// Parameters of the calls of a method so far.
    pub fn calls(&self, method: &str) -> Vec<Value> {
        let calls = self.state.calls.lock().unwrap();
        calls.iter().filter(|(m, _)| m == method).map(|(_, params)| params.clone()).collect()
    }
}

/// One connection: one call, as every answer closes it.
fn serve(state: &State, mut stream: TcpStream) {
    let Ok(body) = read_body(&mut BufReader::new(&stream)) else { return };
    let Ok(call) = serde_json::from_slice::<Value>(&body) else { return };
    let (method, params) = (call["method"].as_str().unwrap_or_default(), &call["params"]);
    let verdict = (state.rule.lock().unwrap())(method, params);
    state.calls.lock().unwrap().push((method.to_owned(), params.clone()));
    let mut answer = json!({"jsonrpc": "2.0", "id": call["id"]});
    match verdict {
        Verdict::Pass | Verdict::Edit(_) | Verdict::LoseAnswer => {
            let Ok(mut passed) = forward(state.upstream, &body) else { return };
            match verdict {
                Verdict::LoseAnswer => return,
                Verdict::Edit(edit) => edit(&mut passed["result"]),
                _ => {}
            }
            answer = passed;
        }
        Verdict::Answer(result) => answer["result"] = result,
        Verdict::Error(message) => answer["error"] = json!({"code": -32005, "message": message}),
        Verdict::Status(status) => {
            respond(&mut stream, status, b"");
            return;
        }
        Verdict::Hold => {
            state.held.lock().unwrap().push(stream);
            return;
        }
    }
    respond(&mut stream, 200, answer.to_string().as_bytes());
}

fn respond(stream: &mut TcpStream, status: u16, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    // A caller that has gone needs no answer.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
}

fn forward(port: u16, body: &[u8]) -> io::Result<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let head = format!(
        "POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat())?;
    Ok(serde_json::from_slice(&read_body(&mut BufReader::new(stream))?)?)
}

fn read_body(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(digits) = line.strip_prefix("content-length:") {
            length = digits.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}
