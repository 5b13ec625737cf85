//! The command line about itself: configuration, completions, the manual.

use serde_json::json;

use crate::config::{Asked, Config, path, without_password};
use crate::failure::{Exit, Failed, Outcome};
use crate::output::{Output, Record};

pub(crate) fn completions(out: &Output, shell: clap_complete::Shell, mut command: clap::Command) -> Outcome {
    let name = command.get_bin_name().unwrap_or("duroxide").to_string();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    out.data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

pub(crate) fn manual(out: &Output, command: clap::Command) -> Outcome {
    let mut page = Vec::new();
    let failed =
        |error: std::io::Error| Failed::new(Exit::Error, format!("the manual cannot be written: {error}"));
    clap_mangen::Man::new(command).render(&mut page).map_err(failed)?;
    out.data(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Done)
}

pub(crate) fn config(out: &Output, asked: &Asked) -> Outcome {
    let config = Config::read()?;
    let file = path().map(|path| path.display().to_string());
    let store = asked.url().ok().map(|url| without_password(&url));
    let mut fields = vec![
        ("file", file.clone().unwrap_or_else(|| "none".to_string())),
        ("store", store.clone().unwrap_or_else(|| "none is named".to_string())),
    ];
    if let Some(default) = &config.default {
        fields.push(("default", default.clone()));
    }
    for (name, profile) in &config.profiles {
        fields.push(("profile", format!("{name}: {}", without_password(&profile.store))));
    }
    let profiles: serde_json::Map<String, serde_json::Value> = config
        .profiles
        .iter()
        .map(|(name, profile)| (name.clone(), json!({ "store": without_password(&profile.store) })))
        .collect();
    let json = json!({ "file": file, "store": store, "default": config.default, "profiles": profiles });
    out.record(&Record { id: store.unwrap_or_default(), fields, json })?;
    Ok(Exit::Done)
}
