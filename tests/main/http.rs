//! The program as a server on a socket, and a plain client: connections that stay open, answers read whole.

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than anything that these tests wait for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A running `shapewise serve`, killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    said: Arc<Mutex<String>>,
}

impl Server {
    /// Starts it on a free port.
    pub(crate) fn start() -> Self {
        Self::listening("127.0.0.1:0")
    }

    /// Starts it at `listen` and waits until it answers.
    pub(crate) fn listening(listen: &str) -> Self {
        let mut child = Command::new(cargo_bin("shapewise"))
            .args(["serve", "--listen", listen])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        let port = first.trim().rsplit(':').next().unwrap().to_owned();
        assert!(first.starts_with("listening on http://"), "{first}");
        let said = Arc::new(Mutex::new(first));
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                *heard.lock().unwrap() += &format!("{line}\n");
            }
        });
        Self {
            child,
            address: format!("127.0.0.1:{port}"),
            said,
        }
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.address).unwrap()
    }

    /// Asks on a connection of its own.
    pub(crate) fn get(&self, path: &str) -> Reply {
        self.client().get(path).unwrap()
    }

    /// Waits until `/metrics` holds this line.
    pub(crate) fn wait_for(&self, line: &str) {
        let mut client = self.client();
        wait_until(line, || client.get("/metrics").unwrap().text.contains(line));
    }

    /// Bytes of memory in use, if the system reports them.
    pub(crate) fn memory(&self) -> Option<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kilobytes * 1024)
    }

    /// Sends a signal such as `TERM`.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the end of the program", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds, not for ever.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "no sign of: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An answer, whole.
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The lines of the header, in lower case.
    pub(crate) header: String,
    pub(crate) text: String,
}

impl Reply {
    /// Whether the connection ends with this answer.
    pub(crate) fn closes(&self) -> bool {
        self.header.contains("connection: close")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<Reply> {
        self.write(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes())?;
        self.read()
    }

    pub(crate) fn post(&mut self, path: &str, body: &[u8]) -> io::Result<Reply> {
        self.write(&question(path, "", body))?;
        self.read()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Reads one whole answer; fails where the connection ends before.
    pub(crate) fn read(&mut self) -> io::Result<Reply> {
        let header = self.header()?;
        let value = |name: &str| header.lines().find_map(|line| line.strip_prefix(name));
        let status = header.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut body = Vec::new();
        if let Some(length) = value("content-length: ") {
            body.resize(length.parse().unwrap(), 0);
            self.stream.read_exact(&mut body)?;
        } else if value("transfer-encoding: ").is_some() {
            while let Some(chunk) = self.chunk()? {
                body.extend(chunk);
            }
        }
        Ok(Reply {
            status: status.ok_or(io::ErrorKind::InvalidData)?,
            text: String::from_utf8(body).unwrap(),
            header,
        })
    }

    /// The lines before a body.
    pub(crate) fn header(&mut self) -> io::Result<String> {
        let mut header = String::new();
        while !header.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut header)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(header.replace("\r\n", "\n").to_ascii_lowercase())
    }

    /// The next part of a streamed body; none at its end.
    pub(crate) fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut length = String::new();
        self.stream.read_line(&mut length)?;
        let length =
            usize::from_str_radix(length.trim(), 16).map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk)?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    /// Whether the other side ends the connection without another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

/// The bytes of a question; `headers` are further lines, each with its end.
pub(crate) fn question(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A search that takes far longer than any test.
pub(crate) fn endless() -> Value {
    json!({"params": "70B", "exhaustive": true, "tolerance": 0.1, "relax": [
        "aspect_ratio", "layers", "ffn_ratio_gated", "width_ratio", "head_dim", "kv_group", "vocab_padding",
    ], "workload": {"tp": 8, "pp": 8}})
}
