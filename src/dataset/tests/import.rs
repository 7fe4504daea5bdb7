//! The importers on small tables with the columns of their publishers: `imports.txt` holds cases and what they read as.
//!
//! A case is a title, `# SOURCE [FILE][, gpu NAME][, stack NAME]: what it shows`, the file, and after `=>` its rows and the reasons
//! why others are left out, or an error. `SHAPEWISE_BLESS=1` writes what follows `=>`.

use crate::dataset::{Filter, Row, Source, Table, import};
use std::fmt::Write;
use std::path::Path;

/// What a file reads as.
fn read(title: &str, content: &str) -> crate::error::Result<Table> {
    let (about, _) = title.split_once(": ").expect("a title says what the case shows");
    let mut parts = about.split(", ");
    let (source, file) = parts
        .next()
        .and_then(|part| part.split_once(' '))
        .unwrap_or((about, "table.csv"));
    let mut filter = Filter::default();
    for (key, name) in parts.filter_map(|part| part.split_once(' ')) {
        let names = Some(vec![name.to_owned()]);
        match key {
            "gpu" => filter.gpus = names,
            "stack" => filter.stacks = names,
            other => panic!("{title}: `{other}`"),
        }
    }
    let source = source.split(',').next().and_then(Source::find).expect(title);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    let outcome = Source::recognise(&path, &filter).and_then(|found| {
        assert!(
            found.is_none_or(|found| found.name() == source.name()),
            "{title}: {found:?}"
        );
        import(source, &[&path], &filter)
    });
    outcome.map_err(|error| {
        let message = error.to_string().replace(&*folder.path().to_string_lossy(), "");
        crate::error::Error::bad_input(message)
    })
}

/// GPU, stack, time, group, libraries and every field of the operator.
fn line(row: &Row) -> String {
    let Row { gpu, stack, op, .. } = row;
    let micros = (row.time.micros() * 1e3).round() / 1e3;
    let group = row.group.map_or(String::new(), |group| format!(", group {group}"));
    let libraries = row.origin.libraries.as_ref();
    let libraries = libraries.map_or(String::new(), |name| format!(" ({name})"));
    let mut line = format!("{gpu}, {stack}{libraries}, {micros} us{group}: {}", op.kind());
    for dimension in op.kind().dimensions() {
        let value = dimension.get(op).expect("a field of the operator");
        let name = dimension.name;
        match (value.count(), value.flag(), value.choice()) {
            (Some(count), ..) => write!(line, " {name} {count}"),
            (_, Some(flag), _) => write!(line, " {name} {flag}"),
            (.., choice) => write!(line, " {}", choice.expect("a name")),
        }
        .expect("a text grows");
    }
    line
}

#[test]
fn tables_as_published_read_as_written_down() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dataset/tests/imports.txt");
    let written = std::fs::read_to_string(&path).unwrap();
    let mut found = String::new();
    for case in written.trim_end().split("\n\n") {
        let (title, content) = case.split_once('\n').unwrap();
        let content = content.split_once("\n=>").map_or(content, |(content, _)| content);
        writeln!(found, "{title}\n{content}\n=>").unwrap();
        match read(title.trim_start_matches("# "), content) {
            Ok(table) => {
                table
                    .rows
                    .iter()
                    .for_each(|row| writeln!(found, "{}", line(row)).unwrap());
                writeln!(found, "{}", table.skipped).unwrap();
            }
            Err(error) => writeln!(found, "error: {error}\n").unwrap(),
        }
    }
    let found = found.trim_end().to_owned() + "\n";
    if std::env::var_os("SHAPEWISE_BLESS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let lines = found.lines().zip(written.lines());
    let differing: Vec<_> = lines.filter(|(found, written)| found != written).take(5).collect();
    let again = std::fs::read_to_string(&path).unwrap();
    assert!(found == again, "{differing:#?}");
}

#[test]
fn every_source_refuses_the_table_of_another() {
    for source in Source::all() {
        let error = read(&format!("{}: refused", source.name()), "speed\n1\n")
            .unwrap_err()
            .to_string();
        let expected = format!("no table of {} has these", source.name());
        assert!(error.contains(&expected), "{error}");
    }
    let unknown = Filter {
        gpus: Some(vec!["abacus".to_owned()]),
        ..Filter::default()
    };
    let source = Source::find("aiconfigurator").unwrap();
    assert!(import(source, &["absent"], &unknown).unwrap_err().is_bad_input());
}

#[test]
fn a_layer_that_was_not_tuned_is_left_out_with_its_row() {
    let mut content =
        "gpu,framework,version,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,\
                       moe_tp_size,moe_ep_size,distribution,latency\n"
            .to_owned();
    for rest in ["4,2,uniform,0.2", "2,1,balanced,0.5", "4,1,balanced,0.8"] {
        writeln!(
            content,
            "h200_sxm,trtllm,1.0,torch_flow,bfloat16,64,2048,768,8,128,{rest}"
        )
        .unwrap();
    }
    let table = read("aiconfigurator: not tuned", &content).unwrap();
    let reason = "over 1.5 times as slow as an MoE layer with more work, as if its kernel was not tuned";
    assert!(table.skipped.first(reason).unwrap().ends_with("table.csv: row 3"));
}
