//! `shapewise mcp`: lines of JSON-RPC, and an independent client.

use crate::cli::program;
use crate::skip::skip;
use serde_json::{Value, json};
use shapewise::answer::question::{AtHand, Question, unwatched};
use shapewise::request::json::in_keys;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

/// A server and the pipes to it.
struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Server {
    fn start() -> Self {
        let mut command = Command::new(program());
        let command = command.arg("mcp").env_remove("SHAPEWISE_GPU");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let output = BufReader::new(output);
        let mut server = Self {
            process,
            input,
            output,
            asked: 0,
        };
        let client = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let answer = server.ask("initialize", &hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "shapewise", "{answer}");
        assert!(answer["result"]["capabilities"]["tools"].is_object(), "{answer}");
        server.say(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
        server
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The next line that the server writes.
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}).to_string());
        let answer = self.line();
        assert_eq!(answer["id"], self.asked, "{answer}");
        answer
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Closes its input; it must end by itself.
    fn end(mut self) {
        drop(self.input);
        assert!(self.process.wait().unwrap().success());
    }
}

/// A search that runs without end is asked for by as many calls as are answered at once.
#[test]
#[cfg(feature = "serve")]
fn a_call_that_its_client_cancels_frees_its_worker() {
    use crate::http::endless;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    let Server {
        mut process,
        mut input,
        output,
        asked,
    } = Server::start();
    let (lines, heard) = mpsc::channel();
    thread::spawn(move || {
        output
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| lines.send(line))
    });
    let mut say = |method: &str, id: Option<u64>, params: Value| {
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        message
            .as_object_mut()
            .unwrap()
            .extend(id.map(|id| ("id".to_owned(), id.into())));
        writeln!(input, "{message}").unwrap();
    };
    let last = asked + thread::available_parallelism().map_or(1, usize::from) as u64;
    for id in asked + 1..=last {
        say(
            "tools/call",
            Some(id),
            json!({"name": "search", "arguments": endless()}),
        );
    }
    // Calls wait in no order: the long ones have to be under way.
    thread::sleep(Duration::from_secs(2));
    let short = json!({"params": "125M", "exhaustive": true, "mlp": "gelu", "layers": 12, "heads": 12, "kv_heads": 12, "vocab": 50257});
    say(
        "tools/call",
        Some(last + 1),
        json!({"name": "search", "arguments": short}),
    );
    assert!(heard.recv_timeout(Duration::from_secs(1)).is_err(), "a worker is free");
    for id in asked + 1..=last {
        say("notifications/cancelled", None, json!({"requestId": id}));
    }
    let answer = loop {
        let line = heard.recv_timeout(Duration::from_secs(120)).expect("no worker is free");
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["id"] == last + 1 {
            break line;
        }
    };
    assert_ne!(answer["result"]["isError"], true, "{answer}");
    drop(input);
    assert!(process.wait().unwrap().success());
}

/// The references of a schema.
fn references(schema: &Value) -> Vec<String> {
    let text = schema.to_string();
    let found = text.split("\"$ref\":\"").skip(1);
    found.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn every_question_is_a_tool_that_answers_its_example() {
    let mut server = Server::start();
    let listed = server.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let questions: Vec<_> = Question::ALL.iter().map(|question| question.name).collect();
    assert_eq!(names, questions);
    for (question, tool) in Question::ALL.iter().zip(tools) {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object", "{tool}");
        for reference in references(schema) {
            assert!(
                schema.pointer(&reference[1..]).is_some(),
                "{reference} of {}",
                question.name
            );
        }
        let example = serde_json::from_str(question.example.unwrap_or("{}")).unwrap();
        let answer = server.call(question.name, &example);
        let result = &answer["result"];
        assert_eq!(result["isError"], false, "{answer}");
        let text = result["content"][0]["text"].as_str().unwrap();
        let report = question.ask(example, Arc::new(AtHand::default()), &unwatched).unwrap();
        assert_eq!(text, in_keys(&report.text()));
        let document: Value = serde_json::from_str(&report.json()).unwrap();
        let is_large = ["models", "presets"].contains(&question.name);
        assert_eq!(
            result["structuredContent"],
            if is_large { Value::Null } else { document },
            "{}",
            question.name
        );
    }
    server.end();
}

#[test]
fn what_is_wrong_is_one_sentence_and_the_next_line_is_answered() {
    let mut server = Server::start();
    for (tool, arguments, sentence) in [
        (
            "predict_gemm",
            json!({"m": 0, "n": 8, "k": 8}),
            "`m` is 0; allowed: a whole number from 1",
        ),
        ("predict_gemm", json!({"m": 8, "n": 8}), "`k` is absent"),
        (
            "check",
            json!({"architecture": "gpt2", "gpu": "h2000"}),
            "`gpu` is `h2000`",
        ),
        ("gpus", json!({"name": "h200"}), "`name` is unknown"),
        ("calibrate", json!({"runs": [], "out": "x.toml"}), "`out` is unknown"),
        (
            "search",
            json!({"params": "100B", "workload": {"mode": "decode"}}),
            "`\"tp\": 8`",
        ),
    ] {
        let answer = server.call(tool, &arguments);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(sentence) && text.lines().count() == 1, "{text}");
        assert!(!text.contains("--"), "{text}");
    }
    let unknown = server.call("predict_everything", &json!({}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    // What is no JSON has no sender to answer; JSON that is no message is refused without an id.
    server.say("{\"jsonrpc\": ");
    server.say("{\"jsonrpc\": \"2.0\", \"id\": {}}");
    let refused = server.line();
    assert_eq!(
        (&refused["error"]["code"], &refused["id"]),
        (&json!(-32600), &Value::Null)
    );
    let answer = server.call("predict_gemm", &json!({"m": 8, "n": 8, "k": 8}));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    server.end();
}

#[test]
fn the_official_client_in_python_is_answered() {
    let python = std::env::var_os("MCP_PYTHON").unwrap_or_else(|| "python3".into());
    let knows = Command::new(&python).args(["-c", "import mcp"]).output();
    if !knows.is_ok_and(|knows| knows.status.success()) {
        return skip("mcp", "no Python with the package mcp");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/client.py");
    let asked = Command::new(python).arg(script).arg(program()).output().unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
}
