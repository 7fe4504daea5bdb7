//! Charts as files: text of an SVG, pixels of a PNG.

use crate::report::plot::Chart;
use crate::report::plot::draw::{Canvas, Fails, HEIGHT, WIDTH};
use plotters::prelude::{BitMapBackend, IntoDrawingArea, SVGBackend};

/// Pixels are averaged over this many in each direction.
const FINER: u32 = 2;

/// How far plotters writes above the middle of a line in pixels, as a share of the size of letters.
const SINK: f64 = 0.24;

/// The chart as a scalable picture of this many pixels.
pub(super) fn svg(chart: &Chart, size: (u32, u32)) -> Result<String, Fails> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
    Canvas::new(&root, 1, 0.0).chart(chart)?;
    root.present()?;
    drop(root);
    Ok(text)
}

/// The chart in pixels: drawn finer, then averaged, so that lines and letters have smooth edges.
pub(super) fn png(chart: &Chart) -> Result<Vec<u8>, Fails> {
    let size @ (width, height) = (WIDTH as u32 * FINER, HEIGHT as u32 * FINER);
    let mut fine = vec![0; (width * height * 3) as usize];
    let root = BitMapBackend::with_buffer(&mut fine, size).into_drawing_area();
    Canvas::new(&root, FINER as i32, SINK).chart(chart)?;
    root.present()?;
    drop(root);
    let pixels = averaged(&fine, width as usize, FINER as usize);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, WIDTH as u32, HEIGHT as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(bytes)
}

/// The mean of each square of `by` times `by` pixels.
fn averaged(fine: &[u8], width: usize, by: usize) -> Vec<u8> {
    let rows = fine.chunks(width * 3 * by);
    let mut pixels = Vec::with_capacity(fine.len() / (by * by));
    for rows in rows {
        for column in 0..width / by {
            for channel in 0..3 {
                let places = (0..by * by).map(|at| {
                    let (row, inside) = (at / by, column * by + at % by);
                    usize::from(rows[(row * width + inside) * 3 + channel])
                });
                pixels.push((places.sum::<usize>() / (by * by)) as u8);
            }
        }
    }
    pixels
}
