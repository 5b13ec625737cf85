//! Steps that are compensated when a later one fails.

use duroxide::prelude::*;

use super::Diary;

async fn reserve(ctx: ActivityContext, what: String) -> Result<String, String> {
    ctx.state::<Diary>().write(format!("reserve {what}"));
    if what == "dragon" { Err("no dragons".to_string()) } else { Ok(format!("r-{what}")) }
}

/// Fails at first: a compensation is retried.
async fn release(ctx: ActivityContext, reservation: String) -> Result<(), String> {
    let diary = ctx.state::<Diary>();
    let line = format!("release {reservation}");
    let again = diary.lines().contains(&line);
    diary.write(line);
    if again { Ok(()) } else { Err("busy".to_string()) }
}

async fn trip(ctx: OrchestrationContext, things: Vec<String>) -> Result<usize> {
    let mut saga = ctx.saga();
    for thing in &things {
        let reserved = saga.step(ctx.call(reserve, thing.clone()), |r| ctx.call(release, r)).await;
        if let Err(error) = reserved {
            saga.compensate().await?;
            return Err(error.into());
        }
    }
    Ok(things.len())
}

async fn check_trip(things: &[&str], expected: Result<usize, &str>, lines: &[&str]) {
    for store in super::stores().await {
        let diary = Diary::default();
        let app = duroxide::Builder::on_store(store)
            .discover(false)
            .activity("Reserve", reserve)
            .activity("Release", release)
            .orchestration("Trip", trip)
            .state(diary.clone())
            .start()
            .await
            .expect("it starts");
        let things: Vec<String> = things.iter().map(ToString::to_string).collect();
        let result = app.run(trip, "t-1", things).await.map_err(|error| error.to_string());
        assert_eq!(result, expected.map_err(ToString::to_string));
        assert_eq!(diary.lines(), lines);
        app.shutdown().await.expect("it stops");
    }
}

#[tokio::test]
async fn a_saga_without_failure_compensates_nothing() {
    check_trip(&["car", "hotel"], Ok(2), &["reserve car", "reserve hotel"]).await;
}

#[tokio::test]
async fn what_succeeded_is_compensated_last_first_with_retries() {
    #[rustfmt::skip]
    let lines = [
        "reserve car", "reserve hotel", "reserve dragon",
        "release r-hotel", "release r-hotel", "release r-car", "release r-car",
    ];
    check_trip(&["car", "hotel", "dragon"], Err("no dragons"), &lines).await;
}
