//! Charts as data, and their pictures; nothing outside this folder knows how they are drawn.

mod draw;

mod labels;

mod legend;

mod picture;

mod scale;

use crate::error::{Error, Result};
use serde::Serialize;
use std::path::Path;

/// Bytes of one unit of an axis of memory.
pub const GIB: f64 = (1_u64 << 30) as f64;

/// Lines, a band and points over two axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chart {
    /// What is shown.
    pub title: String,
    /// For what it was computed; may have several lines.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The uncertainty around the first line.
    pub band: Option<Band>,
    /// Values in order, joined.
    pub lines: Vec<Series>,
    /// Values without a line between them.
    pub points: Vec<Series>,
    /// Positions on the horizontal axis, the strongest kind last.
    pub marks: Vec<Marks>,
    /// The share that the area of each point shows, by series of points; empty where all points are alike.
    pub areas: Vec<Vec<f64>>,
}

/// One axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Axis {
    /// What is measured along it.
    pub label: String,
    /// Its unit; empty for counts.
    pub unit: String,
    /// Whether equal distances are equal ratios; values must be positive then.
    pub log: bool,
}

impl Axis {
    /// One with equal distances for equal differences.
    pub fn linear(label: &str, unit: &str) -> Self {
        Self {
            label: label.to_owned(),
            unit: unit.to_owned(),
            log: false,
        }
    }

    /// One with equal distances for equal ratios.
    pub fn logarithmic(label: &str, unit: &str) -> Self {
        Self {
            log: true,
            ..Self::linear(label, unit)
        }
    }
}

/// An interval for each horizontal value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Its entry in the legend.
    pub name: String,
    /// Horizontal value, lower end, upper end.
    pub points: Vec<(f64, f64, f64)>,
}

/// Values that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Its entry in the legend.
    pub name: String,
    /// Horizontal and vertical values.
    pub points: Vec<(f64, f64)>,
    /// Labels of the points; empty, or one text per point.
    pub labels: Vec<String>,
}

impl Series {
    /// Values without labels.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().collect(),
            labels: Vec::new(),
        }
    }

    /// The same with a label a point.
    #[must_use]
    pub fn labelled(self, labels: impl IntoIterator<Item = String>) -> Self {
        Self {
            labels: labels.into_iter().collect(),
            ..self
        }
    }
}

/// Vertical lines that belong together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Marks {
    /// Their entry in the legend.
    pub name: String,
    /// Whether they are drawn to be seen first.
    pub strong: bool,
    /// The lines.
    pub at: Vec<Mark>,
}

/// One vertical line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Its position.
    pub x: f64,
    /// Its title; may be empty.
    pub label: String,
}

/// A format of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Scalable, with text as text.
    Svg,
    /// 1200 by 700 pixels.
    Png,
}

impl Format {
    /// The format that the extension of a file asks for.
    pub fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        match extension.to_lowercase().as_str() {
            "svg" => Ok(Self::Svg),
            "png" => Ok(Self::Png),
            _ => {
                let value = format!("`{extension}`");
                let place = path.display();
                Err(Error::field(place, "extension", value, ".svg or .png"))
            }
        }
    }
}

/// Draws a chart; the content of the file.
pub fn render(chart: &Chart, format: Format) -> Result<Vec<u8>> {
    let size = (draw::WIDTH as u32, draw::HEIGHT as u32);
    let picture = match format {
        Format::Svg => picture::svg(chart, size).map(String::into_bytes),
        Format::Png => picture::png(chart),
    };
    picture.map_err(failed)
}

/// Draws a chart as SVG of this many pixels, for documents that hold several.
pub fn svg(chart: &Chart, width: u32, height: u32) -> Result<String> {
    picture::svg(chart, (width, height)).map_err(failed)
}

fn failed(error: draw::Fails) -> Error {
    Error::infeasible(format!("the plot cannot be drawn: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(label: &str, unit: &str, log: bool) -> Axis {
        Axis {
            label: label.to_owned(),
            unit: unit.to_owned(),
            log,
        }
    }

    fn chart() -> Chart {
        let points: Vec<_> = (1..=9).map(|x| (f64::from(x), f64::from(x * x % 7))).collect();
        Chart {
            title: "rate against n".to_owned(),
            subtitle: "m < 2304 & k 4096".to_owned(),
            x: axis("n", "", false),
            y: axis("rate", "TFLOP/s", false),
            band: Some(Band {
                name: "90 % interval".to_owned(),
                points: points.iter().map(|(x, y)| (*x, y - 1.0, y + 1.0)).collect(),
            }),
            lines: vec![Series {
                name: "predicted".to_owned(),
                points: points.clone(),
                labels: Vec::new(),
            }],
            points: vec![Series {
                name: "measured".to_owned(),
                points: points[..2].to_vec(),
                labels: vec!["first".to_owned(), "second".to_owned()],
            }],
            marks: vec![Marks {
                name: "new wave".to_owned(),
                strong: true,
                at: vec![Mark {
                    x: 4.0,
                    label: "2".to_owned(),
                }],
            }],
            areas: Vec::new(),
        }
    }

    #[test]
    fn an_svg_holds_every_text() {
        let text = String::from_utf8(render(&chart(), Format::Svg).unwrap()).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        for part in [
            "rate against n",
            "m &lt; 2304 &amp; k 4096",
            "rate (TFLOP/s)",
            "90 % interval",
            "predicted",
            "measured",
            "second",
            "new wave",
            "sans-serif",
        ] {
            assert!(text.contains(part), "`{part}` is not in the picture");
        }
    }

    #[test]
    fn a_png_has_its_size_and_more_than_one_colour() {
        let bytes = render(&chart(), Format::Png).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (1200, 700));
        let dark = pixels.chunks(3).filter(|pixel| pixel[0] < 90).count();
        assert!(dark > 2000, "{dark} dark pixels are too few for text");
    }

    #[test]
    fn odd_charts_are_drawn_too() {
        let empty = Chart::default();
        let mut single = chart();
        single.lines[0].points.truncate(1);
        single.band = None;
        let mut log = chart();
        log.x.log = true;
        log.y.log = true;
        log.band = None;
        let mut long = chart();
        long.title = "a title that is far too long for one line ".repeat(8);
        for chart in [empty, single, log, long] {
            for format in [Format::Svg, Format::Png] {
                assert!(!render(&chart, format).unwrap().is_empty());
            }
        }
    }

    #[test]
    fn the_extension_chooses_the_format() {
        assert_eq!(Format::of(Path::new("a/b.SVG")).unwrap(), Format::Svg);
        assert_eq!(Format::of(Path::new("b.png")).unwrap(), Format::Png);
        for name in ["b.pdf", "b"] {
            let error = Format::of(Path::new(name)).unwrap_err().to_string();
            assert!(error.contains(".svg or .png"), "{error}");
        }
    }
}
