//! Saving, opening and refusing models.

use super::*;

fn artifact() -> Artifact {
    let family = Family::Decode;
    let layer = |inputs: usize, outputs: usize| Layer {
        inputs,
        outputs,
        weight: (0..inputs * outputs).map(|i| (i % 7) as f32 * 0.125).collect(),
        bias: vec![0.5; outputs],
    };
    let net = Net {
        layers: vec![layer(family.width(), 3), layer(3, 1)],
    };
    let net = net.rounded();
    let submodel = Submodel {
        key: Key {
            gpu: "h200".into(),
            stack: "test 1".into(),
            family,
            variant: Variant::Format(Dtype::Bf16),
        },
        features: family.schema().digest.clone(),
        launch_us: 2.5,
        hidden: vec![3],
        members: 2,
        training: Training {
            seed: 0,
            epochs: 1,
            batch: 1,
            learning_rate: 0.1,
            weight_decay: 0.0,
            huber: 0.1,
            teacher_trees: 0,
            pseudo_labels: 0,
            choices: None,
            held_out_fraction: 0.1,
            backend: "cpu".into(),
            distilled: None,
            kriged: false,
            waves: None,
        },
        data: vec![],
        coverage: Coverage::default(),
        calibration: Calibration {
            floor: 0.01,
            bounds_us: vec![10.0],
            factors: vec![2.0, 3.0],
            rows: vec![5, 5],
            sizes: [("seq_kv", 256), ("heads", 8)]
                .map(|(by, bound)| SizeFactors {
                    by: by.into(),
                    bounds: vec![bound],
                    factors: vec![1.0, 0.5],
                    rows: vec![5, 5],
                })
                .into(),
        },
        held_out: vec![],
    };
    let card = Card {
        schema: SCHEMA,
        name: "test".into(),
        base: None,
        kept_out: None,
        weights_sha256: None,
        submodels: vec![submodel],
        gpus: vec![],
    };
    let weights = Weights {
        mean: vec![0.5; family.width()],
        scale: vec![2.0; family.width()],
        nets: vec![net.clone(), net],
    };
    Artifact {
        card,
        weights: vec![Arc::new(weights)],
    }
}

/// The same with one net that has two outputs.
fn distilled() -> Artifact {
    let mut artifact = artifact();
    let submodel = &mut artifact.card.submodels[0];
    submodel.members = 1;
    submodel.training.distilled = Some(Distilled {
        members: 3,
        labels: 10,
        epochs: 1,
    });
    let nets = &mut Arc::make_mut(&mut artifact.weights[0]).nets;
    nets.truncate(1);
    let last = nets[0].layers.last_mut().unwrap();
    last.outputs = Output::WIDTH;
    last.weight = vec![0.25, -0.5, 0.5, 1.0, 0.125, -0.25];
    last.bias = vec![0.5, -1.0];
    nets[0] = nets[0].clone().rounded();
    artifact
}

fn files(artifact: &Artifact) -> (String, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    artifact.clone().save(folder.path()).unwrap();
    let read = |name| std::fs::read(folder.path().join(name)).unwrap();
    (String::from_utf8(read(CARD_FILE)).unwrap(), read(WEIGHTS_FILE))
}

fn refusal(card: &str, weights: &[u8]) -> String {
    Artifact::parse(card, weights, "models/test").unwrap_err().to_string()
}

#[test]
fn saving_and_loading_gives_the_same_model() {
    for original in [artifact(), distilled()] {
        let (card, weights) = files(&original);
        let mut read = Artifact::parse(&card, &weights, "models/test").unwrap();
        assert_eq!(read.card.weights_sha256.take(), Some(sha256(&weights)));
        assert_eq!(read, original);
    }
}

#[test]
fn a_distilled_net_answers_with_a_spread_of_its_own() {
    let distilled = distilled();
    let weights = &distilled.weights[0];
    let row: Vec<f32> = (0..weights.mean.len()).map(|at| at as f32 * 0.1).collect();
    let answer = weights.predict(&row)[0];
    let mean = weights.nets[0].clone().first_output().forward(&{
        let mut row = row.clone();
        weights.normalise(&mut row);
        row
    })[0];
    assert_eq!(answer.mean, f64::from(mean));
    // Below 0 the members agree.
    assert_eq!(Output::of_distilled([1.0, -0.5]).spread, 0.0);
    let (card, weights) = files(&distilled);
    let several = card.replace("\"members\": 1", "\"members\": 2");
    assert!(refusal(&several, &weights).contains("allowed: one net"));
}

#[test]
fn weights_that_changed_since_they_were_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    artifact().save(folder.path()).unwrap();
    assert!(Artifact::open(folder.path()).is_ok());
    let path = folder.path().join(WEIGHTS_FILE);
    let whole = std::fs::read(&path).unwrap();
    for at in (whole.len() - 60..whole.len()).step_by(7) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        std::fs::write(&path, &flipped).unwrap();
        let refused = Artifact::open(folder.path()).unwrap_err().to_string();
        let named = refused.contains("weights_sha256") || refused.contains("not a number");
        assert!(
            named && refused.contains("train the model again") || refused.contains("not a number"),
            "{refused}"
        );
    }
    std::fs::write(&path, &whole).unwrap();
    let card = folder.path().join(CARD_FILE);
    let text = std::fs::read_to_string(&card).unwrap();
    let line = text.lines().find(|line| line.contains("weights_sha256"));
    std::fs::write(&card, text.replace(line.unwrap(), "")).unwrap();
    let refused = Artifact::open(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("`weights_sha256` is absent"), "{refused}");
}

#[test]
fn anything_that_does_not_fit_is_refused_with_its_name() {
    let good = artifact();
    let (card, weights) = files(&good);
    let mut narrow = good.clone();
    narrow.card.submodels[0].hidden[0] = 0;
    let (without_units, _) = files(&narrow);
    for (damaged, expected) in [
        (
            card.replace("\"schema\": 3", "\"schema\": 2"),
            "`schema` is 2; allowed: 3",
        ),
        (
            card.replace(&Family::Decode.schema().digest, "0123456789abcdef"),
            "feature schema 0123456789abcdef",
        ),
        (
            card.replace("\"members\": 2", "\"members\": 3"),
            "`0.2.0.weight` is missing",
        ),
        (
            card.replace("\"members\": 2", "\"members\": 1"),
            "5 tensors that the card does not describe",
        ),
        (
            card.replace("\"launch_us\": 2.5", "\"launch_us\": 0.0"),
            "must be finite and from 1e-9",
        ),
        (without_units, "a hidden layer of width 0"),
        (card.replace("\"seed\"", "\"sead\""), "sead"),
        (String::new(), "not a model card"),
    ] {
        assert_ne!(damaged, card);
        let message = refusal(&damaged, &weights);
        assert!(
            message.contains(expected) && message.contains("models/test"),
            "{message}"
        );
    }
    for length in [0, 7, 100, weights.len() - 1] {
        assert!(refusal(&card, &weights[..length]).contains("damaged"));
    }
    let mut poisoned = good;
    Arc::make_mut(&mut poisoned.weights[0]).mean[3] = f32::NAN;
    let (card, weights) = files(&poisoned);
    assert!(refusal(&card, &weights).contains("not a number"));
}

#[test]
fn calibration_groups_by_reference_time_and_size() {
    let calibration = &artifact().card.submodels[0].calibration;
    let bounds = &calibration.bounds_us;
    assert_eq!([group_of(bounds, 9.9), group_of(bounds, 10.0)], [0, 1]);
    let factor = |keys, heads| calibration.size_factor([keys, heads].into_iter());
    let factors = [factor(255, 7), factor(256, 7), factor(255, 8), factor(256, 8)];
    assert_eq!(factors, [1.0, 0.5, 0.5, 0.25]);
    assert!((calibration.half_width(20.0, 0.5, 0.04) - 0.075).abs() < 1e-12);
    // Cards of older nets know no sizes.
    let older = Calibration {
        sizes: vec![],
        ..calibration.clone()
    };
    assert_eq!(older.size_factor([256, 8].into_iter()), 1.0);
}

#[test]
fn a_calibration_by_other_sizes_or_groups_does_not_load() {
    let changed = |change: fn(&mut SizeFactors)| {
        let mut artifact = artifact();
        change(&mut artifact.card.submodels[0].calibration.sizes[0]);
        let (card, weights) = files(&artifact);
        refusal(&card, &weights)
    };
    let other = changed(|by| by.by = "m".into());
    assert!(other.contains("goes by m, heads; allowed: seq_kv, heads"), "{other}");
    let fewer = changed(|by| by.factors.truncate(1));
    assert!(fewer.contains("1 factors, one more"), "{fewer}");
    let nothing = changed(|by| by.factors[0] = 0.0);
    assert!(nothing.contains("must be finite and from"), "{nothing}");
}

#[test]
fn normalising_clips_far_features() {
    let weights = &artifact().weights[0];
    let mut row = vec![0.5; weights.mean.len()];
    row[0] = 1.5;
    row[1] = 1e9;
    weights.normalise(&mut row);
    assert_eq!(row[..3], [2.0, CLIP, 0.0]);
}
