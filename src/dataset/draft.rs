//! A row while its columns are read.

use super::column::{Cell, Column, Problem};
use super::schema;
use super::{Cache, Kernel, Measured, Origin, Role, Row, Stop};
use crate::ops::OpKind;
use crate::units::Seconds;
use std::collections::HashMap;
use std::sync::Arc;

/// What the columns write to, row after row; texts that repeat are kept once.
pub(super) struct Draft {
    pub row: Row,
    pub measured: Measured,
    pub kernel: Kernel,
    pub tile: (Option<u32>, Option<u32>),
    pub cluster: (Option<u32>, Option<u32>),
    is_measured: bool,
    origin: Option<Origin>,
    /// What a row is before its first column is read.
    blank: Row,
    texts: HashMap<String, Arc<str>>,
    origins: HashMap<Origin, Arc<Origin>>,
}

impl Draft {
    /// Rows of this GPU, stack and origin, where no column says otherwise.
    pub fn new(gpu: Arc<str>, stack: Arc<str>, origin: Arc<Origin>) -> Self {
        let blank = Row {
            origin,
            ..Row::new(OpKind::ALL[0].smallest(), gpu, stack, Seconds::ZERO)
        };
        Self {
            row: blank.clone(),
            measured: unmeasured(""),
            kernel: Kernel::default(),
            tile: (None, None),
            cluster: (None, None),
            is_measured: false,
            origin: None,
            blank,
            texts: HashMap::new(),
            origins: HashMap::new(),
        }
    }

    /// The row whose cells `cell` answers, by the place of the column and the column.
    pub fn read<'a>(
        &mut self,
        columns: impl IntoIterator<Item = &'static Column>,
        cell: impl Fn(usize, &Column) -> Option<Cell<'a>>,
    ) -> Result<Row, Problem> {
        self.row = self.blank.clone();
        (self.origin, self.is_measured) = (None, false);
        for (place, column) in columns.into_iter().enumerate() {
            column.set(self, cell(place, column))?;
        }
        if let Some(origin) = self.origin.take() {
            let shared = self.origins.entry(origin);
            let key = shared.key().clone();
            self.row.origin = Arc::clone(shared.or_insert_with(|| Arc::new(key)));
        }
        if self.is_measured {
            let kernel = self.kernel();
            self.measured.kernel = (kernel != Kernel::default()).then_some(kernel);
            let measured = std::mem::replace(&mut self.measured, unmeasured(""));
            self.row.measured = Some(Box::new(measured));
        }
        schema::check(&self.row)?;
        Ok(std::mem::replace(&mut self.row, self.blank.clone()))
    }

    /// The algorithm, which is read.
    pub fn kernel(&mut self) -> Kernel {
        Kernel {
            tile: self.tile.0.zip(self.tile.1),
            cluster: self.cluster.0.zip(self.cluster.1),
            ..std::mem::take(&mut self.kernel)
        }
    }

    /// Begins what `measure` adds; without it the columns after it are left out.
    pub fn begin_measured(&mut self, set: &str) {
        self.is_measured = true;
        self.measured = unmeasured(set);
        self.kernel = Kernel::default();
        (self.tile, self.cluster) = ((None, None), (None, None));
    }

    /// Whether the row is one of `measure`.
    pub fn is_measured(&self) -> bool {
        self.is_measured
    }

    /// Where the row is from.
    pub fn origin(&mut self) -> &mut Origin {
        self.origin.get_or_insert_default()
    }

    /// A text that later rows may repeat.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.texts.get(text) {
            return Arc::clone(shared);
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(text.to_owned(), Arc::clone(&shared));
        shared
    }
}

/// What the columns fill in; those that `measure` always writes are asked for.
pub(super) fn unmeasured(set: &str) -> Measured {
    Measured {
        set: set.to_owned(),
        role: Role::Plan,
        cache: Cache::Cold,
        rank: 0,
        at_s: 0.0,
        calls: 0,
        min: Seconds::ZERO,
        quartiles: (Seconds::ZERO, Seconds::ZERO),
        half_width: None,
        stop: Stop::Precise,
        throttled: false,
        clock_reasons: None,
        power_watts: None,
        temperature_celsius: None,
        kernel: None,
    }
}
