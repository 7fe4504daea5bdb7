//! Sustained loads on the scripted device: windows, operators alone, order, resuming.

use super::*;
use crate::dataset::loads::{LoadKind, Window, loads_path, read_loads};

/// A plan of a few loads and nothing else but what is given.
fn loaded(sets: Vec<(plan::Set, usize)>) -> Plan {
    let mut plan = plan::find("layers").unwrap();
    plan.sets = sets;
    plan
}

#[test]
fn a_load_runs_until_the_clock_has_settled_with_its_operators_alone_before() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let plan = loaded(vec![(plan::Set::Sustained, 6), (plan::Set::Layers, 4)]);
    let outcome = Setting::new(&plan).run(&Script::default(), &out).unwrap();
    assert_eq!((outcome.ended, outcome.unreached), (Ended::Complete, 0));
    let loads = &outcome.loads;
    let layers: Vec<_> = loads
        .iter()
        .filter(|load| load.kind == LoadKind::Layer)
        .collect();
    assert_eq!((loads.len(), layers.len()), (10, 4));
    let beside = loads_path(&out);
    let read = read_loads(&beside, &outcome.header.shared()).unwrap();
    assert_eq!(read.len(), 10);
    let device = Scripted::new(Script::default());
    for load in loads {
        let truth = load
            .parts
            .iter()
            .map(|part| device.truth(&Case::cold(part.op)).micros());
        let truth: f64 = truth.sum();
        let near = |time: f64, wanted: f64| (time / wanted - 1.0).abs() < 0.01;
        assert!(near(load.cold().unwrap().micros(), truth), "{}", load.name);
        // The script lowers the clock after 0.4 s of load.
        assert!(near(load.windows[0].time_us, truth), "{}", load.name);
        assert!(
            near(load.settled().unwrap().micros(), truth / 0.85),
            "{}",
            load.name
        );
        let seconds = |window: &Window| window.time_us * f64::from(window.passes) * 1e-6;
        let lengths = load.windows.iter().map(seconds);
        assert!(lengths.clone().all(|length| (0.01..0.04).contains(&length)));
        assert!((1.5..1.55).contains(&lengths.sum::<f64>()), "{}", load.name);
        assert!(
            load.windows
                .iter()
                .all(|window| window.power_watts == Some(400.0))
        );
    }
    for layer in layers {
        let role = |name: &str| {
            layer
                .parts
                .iter()
                .position(|part| part.role.as_deref() == Some(name))
        };
        let order = [
            "attention",
            "mlp_residual",
            "attention_projection.grad_weight",
            "attention.backward",
        ];
        let places: Vec<_> = order.iter().map(|name| role(name).expect(name)).collect();
        assert!(places.is_sorted(), "{places:?}");
        assert!(role("embedding").is_none() && role("optimizer").is_none());
    }
    // The cold time of an operator is an ordinary row; a second one is a repeat.
    let alone: HashSet<Case> = shapes(&outcome.rows);
    let parts = loads.iter().flat_map(|load| &load.parts);
    assert!(
        parts
            .clone()
            .all(|part| alone.contains(&Case::cold(part.op)))
    );
    assert!(outcome.rows.iter().any(dataset::is_timing));
    assert_eq!(roles(&outcome.rows, Role::Plan).count(), alone.len());
    assert!(outcome.drift.unwrap().anchors > 5);
}

#[test]
fn loads_are_spread_over_the_cases_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let plan = loaded(vec![(plan::Set::Sobol, 200), (plan::Set::Layers, 3)]);
    let all = Setting::new(&plan).run(&Script::default(), &folder.path().join("all.parquet"));
    let all = all.unwrap();
    assert_eq!(all.loads.len(), 3);
    // A load is in the middle of each third.
    let own: Vec<_> = roles(&all.rows, Role::Plan).collect();
    let of_layers = |row: &&Row| row.measured.as_ref().unwrap().set == "layers";
    assert!(own[..own.len() / 3].iter().any(&of_layers));
    assert!(!of_layers(&own[0]) && !of_layers(own.last().unwrap()));
    let short = Setting {
        most: all.rows.len() * 2 / 3,
        ..Setting::new(&plan)
    };
    let begun = short.run(&Script::default(), &out).unwrap();
    assert_eq!(begun.ended, Ended::Interrupted);
    assert!((1..3).contains(&begun.loads.len()), "{}", begun.loads.len());
    // Neither file is overwritten unasked.
    fs::rename(&out, folder.path().join("elsewhere")).unwrap();
    let refused = Setting::new(&plan)
        .run(&Script::default(), &out)
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("mine.loads.parquet exists already"),
        "{refused}"
    );
    fs::rename(folder.path().join("elsewhere"), &out).unwrap();
    let resumed = Setting::resuming(&plan)
        .run(&Script::default(), &out)
        .unwrap();
    let names = |outcome: &Outcome| {
        let names = outcome.loads.iter().map(|load| load.name.clone());
        names.collect::<HashSet<_>>()
    };
    assert_eq!((resumed.loads.len(), names(&resumed)), (3, names(&all)));
    for (kept, earlier) in resumed.loads.iter().zip(&begun.loads) {
        assert_eq!(kept.name, earlier.name);
        assert_eq!(kept.windows.len(), earlier.windows.len());
        assert_eq!(kept.parts.len(), earlier.parts.len());
    }
}

#[test]
fn loads_that_a_device_refuses_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let plan = loaded(vec![(plan::Set::Layers, 2)]);
    let script = Script {
        attention: false,
        ..Script::default()
    };
    let outcome = Setting::new(&plan).run(&script, &folder.path().join("mine.parquet"));
    let outcome = outcome.unwrap();
    let reasons: Vec<_> = outcome.skipped.iter().collect();
    assert_eq!(
        reasons,
        [("refused: load: there is no fused attention here", 2)]
    );
    assert!(outcome.loads.is_empty() && !loads_path(&folder.path().join("mine.parquet")).exists());
}
