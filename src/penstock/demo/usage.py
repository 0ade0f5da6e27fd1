from penstock import Pipeline, agg, correct, tumbling

pipeline = Pipeline("usage")
requests = pipeline.topic(
    "usage.requests",
    schema="id string, source string, account string, model string, quantity decimal(18,6), accepted_at timestamp",
    identity=["source", "id"],
    event_time="accepted_at",
    late=correct("400 days"),
)

@pipeline.stream(requests)
def billable(requests):
    return requests.where("quantity > 0")

pipeline.view("usage_by_account", billable, by=["account"],
              columns={"requests": agg.count(), "quantity": agg.sum("quantity")})
pipeline.view("usage_by_minute", billable, by=[tumbling("1 minute"), "model"], columns={"requests": agg.count()})
