//! The report over a fleet.

use super::folder::blocking;
use crate::Error;
use crate::app::App;
use crate::fleet::Report;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

/// `GET /api/fleet`
pub(super) async fn fleet(State(app): State<Arc<App>>) -> Result<Json<Report>, Error> {
    blocking(move || {
        let fleet = app.fleet.as_ref().ok_or(Error::NotFound("fleet"))?;
        Ok(Json(fleet.report(&app.folder)?))
    })
    .await
}
