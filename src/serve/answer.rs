//! The documents of answers, for the document of the API.

use crate::report::SCHEMA;
use crate::report::check::CheckReport;
use crate::report::gpus::{GpuReport, GpusReport};
use crate::report::models::ModelsReport;
use crate::report::operator::{OperatorReport, OperatorsReport};
use crate::report::presets::PresetsReport;
use crate::report::search::SearchReport;
use crate::report::step::StepReport;
use crate::report::sweep::SweepReport;
use std::borrow::Cow;
use std::marker::PhantomData;
use utoipa::openapi::schema::{AllOfBuilder, Type};
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A document as it is answered: the report, with the version beside its keys.
pub struct Answer<R>(PhantomData<R>);

pub type Check = Answer<CheckReport>;
pub type Gpu = Answer<GpuReport>;
pub type Gpus = Answer<GpusReport>;
pub type Models = Answer<ModelsReport>;
pub type Operator = Answer<OperatorReport>;
pub type Operators = Answer<OperatorsReport>;
pub type Presets = Answer<PresetsReport>;
pub type Search = Answer<SearchReport>;
pub type Step = Answer<StepReport>;
pub type Sweep = Answer<SweepReport>;

impl<R: ToSchema> PartialSchema for Answer<R> {
    fn schema() -> RefOr<Schema> {
        let version = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .enum_values(Some([SCHEMA]))
            .description(Some("The version of the document."));
        let version = ObjectBuilder::new()
            .property("schema", version)
            .required("schema");
        AllOfBuilder::new()
            .item(Ref::from_schema_name(R::name()))
            .item(version)
            .into()
    }
}

impl<R: ToSchema> ToSchema for Answer<R> {
    fn name() -> Cow<'static, str> {
        let report = R::name();
        let what = report.strip_suffix("Report").unwrap_or(&report);
        format!("{what}Answer").into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((R::name().into(), R::schema()));
        R::schemas(schemas);
    }
}
