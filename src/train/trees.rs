//! stub
pub struct TreesConfig {
    pub trees: usize,
}
impl Default for TreesConfig {
    fn default() -> Self {
        Self { trees: 0 }
    }
}
pub struct Forest {}
pub fn grow(
    _w: usize,
    _i: &[f32],
    _t: &[f32],
    _wt: &[f32],
    _c: &TreesConfig,
    _s: u64,
    _p: &mut dyn FnMut(usize),
) -> Forest {
    Forest {}
}
impl Forest {
    pub fn predict(&self, _i: &[f32]) -> Vec<f32> {
        vec![]
    }
}
