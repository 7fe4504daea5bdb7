//! The Model Context Protocol on standard input and output: every question is a tool of an agent.
//!
//! The tools walk [`Question::ALL`]. An answer is the text of the command line, with the JSON document as
//! structured content; bad input is an error of the tool with one sentence.

use crate::answer::question::{AtHand, Load, Question};
use crate::error::{Error, Result};
use crate::request::json::in_keys;
use crate::search::Watch;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError, ServiceExt};
use rmcp::{ServerHandler, transport};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};
use tokio::sync::Semaphore;
use tokio::task;

/// The largest document that is sent, in bytes: agents read all of it.
const LARGEST_DOCUMENT: usize = 64 << 10;

/// How long answers may take to notice that standard input has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Instructions that an agent receives before its first question.
const INSTRUCTIONS: &str = "Predicts how fast transformers run on GPUs, and finds shapes and layouts that run faster. Every key \
    of an answer carries its unit; times have a 90 % interval and the tier that they come from: measured, learned, transferred or \
    roofline. `gpus` and `presets` list the names that requests take.";

/// Answers until standard input ends.
pub fn run() -> Result<()> {
    let failed = |error: io::Error| Error::io("standard input", error);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let server = Server {
        is_over: Arc::clone(&is_over),
        cores: Semaphore::new(thread::available_parallelism().map_or(1, usize::from)),
    };
    let ended = runtime.block_on(async {
        let service = match server.serve(transport::stdio()).await {
            // No question was asked.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            service => service.map_err(|error| failed(io::Error::other(error)))?,
        };
        let ended = service.waiting().await;
        ended.map(drop).map_err(|error| failed(io::Error::other(error)))
    });
    is_over.store(true, Ordering::Relaxed);
    runtime.shutdown_timeout(LAST_ANSWERS);
    ended
}

struct Server {
    /// Whether standard input has ended, so that no client waits for an answer.
    is_over: Arc<AtomicBool>,
    /// For what takes longer than a moment.
    cores: Semaphore,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let tools = ServerCapabilities::builder().enable_tools().build();
        let own = Implementation::new("shapewise", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(tools)
            .with_server_info(own)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            Question::ALL.iter().map(tool).collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        let question = Question::find(&request.name);
        let question = question.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let body = Value::Object(request.arguments.unwrap_or_default());
        let is_over = Arc::clone(&self.is_over);
        let _core = match question.load {
            Load::Moment => None,
            Load::Job | Load::Search => self.cores.acquire().await.ok(),
        };
        let answer = move || {
            let is_over = || context.ct.is_cancelled() || is_over.load(Ordering::Relaxed);
            let watch = |_: &_| match is_over() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            answered(question, body, &watch)
        };
        match task::spawn_blocking(answer).await {
            Ok(Ok(answer)) => Ok(answer.into()),
            Ok(Err(error)) => Ok(CallToolResult::error(vec![ContentBlock::text(in_keys(&error.to_string()))]).into()),
            Err(_) => Err(ErrorData::internal_error(
                "a bug of shapewise, named on standard error",
                None,
            )),
        }
    }
}

fn answered(question: &Question, body: Value, watch: &Watch<'_>) -> Result<CallToolResult> {
    let report = question.ask(body, Arc::new(AtHand::default()), watch)?;
    let document = report.json();
    let text = in_keys(&report.text());
    let mut answer = CallToolResult::success(vec![ContentBlock::text(text)]);
    if document.len() <= LARGEST_DOCUMENT {
        answer.structured_content = Some(serde_json::from_str(&document).expect("reports are JSON"));
    }
    Ok(answer)
}

fn tool(question: &Question) -> Tool {
    let annotations = ToolAnnotations::new().read_only(true).open_world(false);
    Tool::new(question.name, question.summary, input(question)).with_annotations(annotations)
}

/// The schema of the arguments, with those that it refers to.
fn input(question: &Question) -> JsonObject {
    let (_, schemas) = question.body_schema();
    let text = json!(schemas).to_string();
    let text = text.replace("#/components/schemas/", "#/$defs/");
    let schemas: Vec<(String, JsonObject)> = serde_json::from_str(&text).expect("only names were replaced");
    let mut schemas = schemas.into_iter();
    let (_, mut own) = schemas.next().expect("its own is the first");
    let others: JsonObject = schemas.map(|(name, schema)| (name, schema.into())).collect();
    if !others.is_empty() {
        own.insert("$defs".to_owned(), others.into());
    }
    own
}
