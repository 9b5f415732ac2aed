//! The page, as it lies in `web/`, without a step in between.

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const ICON: &str = "image/svg+xml";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($path:literal $kind:ident $file:literal,)+) => {
        /// Path, media type, text.
        const FILES: &[(&str, &str, &str)] =
            &[$(($path, $kind, include_str!(concat!("../../../web/dashboard/", $file))),)+];
    };
}

files! {
    "/" HTML "index.html",
    "/style.css" CSS "style.css",
    "/icon.svg" ICON "icon.svg",
    "/api.js" SCRIPT "api.js",
    "/charts.js" SCRIPT "charts.js",
    "/dom.js" SCRIPT "dom.js",
    "/format.js" SCRIPT "format.js",
    "/keys.js" SCRIPT "keys.js",
    "/layout.js" SCRIPT "layout.js",
    "/main.js" SCRIPT "main.js",
    "/model.js" SCRIPT "model.js",
    "/selection.js" SCRIPT "selection.js",
    "/tables.js" SCRIPT "tables.js",
    "/topology.js" SCRIPT "topology.js",
}

/// The file at a path, with its media type.
pub fn find(path: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().find(|f| f.0 == path).map(|f| (f.1, f.2))
}
