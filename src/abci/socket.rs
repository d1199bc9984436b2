//! The sockets that the server listens on: a unix socket, or TCP on the loopback interface.
//!
//! A unix socket's path outlives its process, so a path that nobody listens on any more is
//! removed at bind; one that somebody answers on, or that is not a socket, is an error. The
//! socket's mode is 0600: who may write to it decides what the application executes.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

const SOCKET_MODE: u32 = 0o600;

/// Where the server listens. Its text form is that of CometBFT's `proxy_app`:
/// `unix:///path/of/socket` or `tcp://127.0.0.1:26658`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix socket's path.
    Unix(PathBuf),
    /// A loopback address.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix://{}", path.display()),
            Address::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// The text is not an address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("ABCI address {text:?} is neither unix://PATH nor tcp://IP:PORT")]
pub struct ParseAddressError {
    /// The text.
    pub text: String,
}

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let bad = || ParseAddressError { text: text.to_owned() };
        match text.split_once("://") {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => address.parse().map(Self::Tcp).map_err(|_| bad()),
            _ => Err(bad()),
        }
    }
}

/// The server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens on the path.
    #[error("another process listens on {}", path.display())]
    InUse {
        /// The socket's path.
        path: PathBuf,
    },
    /// The path exists and is not a socket; it is left alone.
    #[error("{} exists and is not a socket", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The TCP address is not a loopback address.
    #[error("{address} is not a loopback address")]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The system refused.
    #[error("cannot listen on {address}: {source}")]
    Io {
        /// The address.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
}

pub(crate) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens; returns the address with the port that was really taken.
    pub(crate) fn bind(address: &Address) -> Result<(Self, Address), BindError> {
        let failed = |source| BindError::Io { address: address.clone(), source };
        match address {
            Address::Unix(path) => {
                remove_stale(path)?;
                let listener = UnixListener::bind(path).map_err(failed)?;
                fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))
                    .map_err(failed)?;
                Ok((Self::Unix(listener), address.clone()))
            }
            Address::Tcp(tcp) if !tcp.ip().is_loopback() => {
                Err(BindError::NotLoopback { address: *tcp })
            }
            Address::Tcp(tcp) => {
                let listener = TcpListener::bind(tcp).map_err(failed)?;
                let taken = listener.local_addr().map_err(failed)?;
                Ok((Self::Tcp(listener), Address::Tcp(taken)))
            }
        }
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
            Self::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

/// Removes a socket that nobody listens on.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    let failed = |source| BindError::Io { address: Address::Unix(path.to_owned()), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(BindError::NotASocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(BindError::InUse { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(crate) fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Address::Tcp(address) => TcpStream::connect(address).map(Self::Tcp),
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    /// Ends both directions; a read or write that blocks on a clone returns.
    pub(crate) fn shutdown(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
