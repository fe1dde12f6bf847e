"""The routes for owners and auditors, under /v1/admin."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.ledger.usage import MAX_BUDGETS
from sfumato.service import examples, governing
from sfumato.service.routes import IDEMPOTENCY_KEY, PAGE, Route, describe_body, describe_parameter
from sfumato.service.schemas import DAY, NAME, TEXT, array
from sfumato.wire import (
    Accounts,
    AccountStanding,
    Guarantee,
    Keys,
    KeyState,
    LedgerState,
    NewKey,
    PolicyReport,
    Questions,
    ReleaseInfo,
    Releases,
    UsageReport,
    VerificationInfo,
)

_DAYS = (
    describe_parameter("since", "query", DAY, "The first day (UTC). Default: 30 days before the last."),
    describe_parameter("until", "query", DAY, "The last day (UTC). Default: today."),
)

_ONCE = describe_parameter(
    *("Idempotency-Key", "header", IDEMPOTENCY_KEY),
    "Identifies this call. The same key with the same body changes nothing more. With another body it is refused.",
)

ADMIN_ROUTES: Mapping[str, Route] = {
    "total_guarantee": Route(
        path="/v1/admin/guarantee",
        right="oversee",
        pool="estimate",
        work=lambda calls, _: calls.session.guarantee(),
        summary="Get the guarantee of all",
        text="For owners and auditors: what all accounts and reports promise, and for each source of rows one total of "
        "questions, releases and reports.",
        reply=Guarantee,
        reply_text="The guarantee.",
    ),
    "usage": Route(
        path="/v1/admin/usage",
        right="oversee",
        pool="estimate",
        work=lambda calls, call: calls.session.usage(
            **call.query("since", "until"), budgets=call.request.query_params.getlist("budget")
        ),
        summary="Get the usage",
        text="For owners and auditors: spending per day, analyst and account. With budgets, also how many analysts "
        "would have exhausted each by each day of their period.",
        parameters=[
            *_DAYS,
            describe_parameter(
                *("budget", "query"),
                array({"type": "string", "pattern": "^[0-9]{1,15},[0-9]{1,15}$"}, maxItems=MAX_BUDGETS),
                "INFORMATION,CALLS. Repeat the parameter for several budgets.",
                style="form",
                explode=True,
                example=["3000,30"],
            ),
        ],
        reply=UsageReport,
        reply_text="The usage.",
        problems=["invalid-argument"],
    ),
    "all_questions": Route(
        path="/v1/admin/questions",
        right="oversee",
        work=lambda calls, call: calls.session.all_questions(**call.query("analyst", "since", "until"), **call.page()),
        summary="List the questions of all",
        text="For owners and auditors: what analysts asked and paid for, by page, the latest first. Never an answer. "
        "`recallable` says whether the analyst can still get the answer.",
        parameters=[
            describe_parameter("analyst", "query", TEXT, "One analyst. Default: all."),
            *_DAYS,
            *PAGE,
        ],
        reply=Questions,
        reply_text="One page.",
        problems=["invalid-argument"],
    ),
    "accounts": Route(
        path="/v1/admin/accounts",
        right="oversee",
        pool="estimate",
        work=lambda calls, _: calls.session.accounts(),
        summary="List the accounts",
        text="For owners and auditors: every account in its current period, and the day on which it would run dry at "
        "this pace.",
        reply=Accounts,
        reply_text="The accounts.",
    ),
    "policy": Route(
        path="/v1/admin/policy",
        right="oversee",
        pool="estimate",
        work=lambda calls, _: calls.session.policy(),
        summary="Get the policy in force",
        text="For owners and auditors: every setting that bounds and promises, what `sfumato policy check` says of it "
        "now, and what changed last. No secret, no source of a table, no place of a file or of a service.",
        reply=PolicyReport,
        reply_text="The policy.",
        problems=["engine-failed"],
    ),
    "ledger_state": Route(
        path="/v1/admin/ledger",
        right="oversee",
        work=lambda calls, _: calls.session.ledger_state(),
        summary="Get the state of the ledger",
        text="For owners and auditors: the ledger's identity, schema, length and head, the open reservations, and what "
        "its fence has seen. No place of a file or of a database.",
        reply=LedgerState,
        reply_text="The state.",
    ),
    "verify_ledger": Route(
        path="/v1/admin/ledger/verify",
        method="POST",
        right="govern",
        work=lambda calls, call: calls.session.verify_ledger(by=governing.actor_of(call.caller)),
        summary="Check the ledger",
        text="For owners: begin a check of the whole ledger, as `sfumato budget verify` makes it. GET /v1/admin/ledger "
        "says how far it is and what it has found. While one is running, this returns that one.",
        reply=VerificationInfo,
        reply_text="The check has begun.",
        status=202,
    ),
    "releases": Route(
        path="/v1/admin/releases",
        right="oversee",
        pool="estimate",
        work=lambda calls, call: calls.session.releases(**call.page()),
        summary="List the releases",
        text="For owners and auditors: the releases that the ledger has paid for, by page, the latest first.",
        parameters=PAGE,
        reply=Releases,
        reply_text="One page.",
        problems=["invalid-argument"],
    ),
    "release": Route(
        path="/v1/admin/releases/{digest}",
        right="oversee",
        pool="estimate",
        work=lambda calls, call: calls.session.release(call.part("digest")),
        summary="Get a release",
        text="For owners and auditors: one release with its statement. The table itself is where it was written to.",
        parameters=[describe_parameter("digest", "path", NAME, "The `digest` of a release.", example=examples.DIGEST)],
        reply=ReleaseInfo,
        reply_text="The release.",
    ),
    "keys": Route(
        path="/v1/admin/keys",
        right="oversee",
        work=lambda calls, call: calls.session.keys(**call.query("analyst")),
        summary="List the API keys",
        text="For owners and auditors: the keys that were made, by whom, and whether they are valid. Never a key.",
        parameters=[describe_parameter("analyst", "query", TEXT, "Those of one analyst. Default: all.")],
        reply=Keys,
        reply_text="The keys, the oldest first.",
    ),
    "create_key": Route(
        path="/v1/admin/keys",
        method="POST",
        right="govern",
        work=lambda calls, call: governing.create_key(calls.session, call.caller, call.body, call.key),
        summary="Make an API key",
        text="For owners, where `[console] govern = true`: a key of an analyst, in this reply and nowhere else. It "
        f"ends within {governing.MAX_KEY_DAYS} days, and is never an owner's. The journal notes who made it.",
        parameters=[_ONCE],
        body=describe_body("KeyRequest", examples.KEY_REQUESTS),
        reply=NewKey,
        reply_text="The key, and what is known of it.",
        problems=["governing-off", "invalid-argument", "key-reused"],
    ),
    "revoke_key": Route(
        path="/v1/admin/keys/{id}/revoke",
        method="POST",
        right="govern",
        work=lambda calls, call: calls.session.revoke_key(call.part("id"), by=governing.actor_of(call.caller)),
        summary="Revoke an API key",
        text="For owners: end a key at once and for good, in every worker. Revoking it again changes nothing. The "
        "journal notes who did it.",
        parameters=[describe_parameter("id", "path", NAME, "The `id` of a key.", example="5f0c2a9be471")],
        reply=KeyState,
        reply_text="What is known of the key.",
    ),
    "grant": Route(
        path="/v1/admin/grants",
        method="POST",
        right="govern",
        work=lambda calls, call: governing.grant(calls.session, call.caller, call.body, call.key),
        summary="Grant to an account",
        text="For owners, where `[console] govern = true`: add to what an account may spend until it resets. A grant "
        "weakens the promise of the budget until then. The journal holds the reason and who granted it.",
        parameters=[_ONCE],
        body=describe_body("GrantRequest", examples.GRANT_REQUESTS),
        reply=AccountStanding,
        reply_text="The account after the grant.",
        problems=["governing-off", "invalid-argument", "key-reused"],
    ),
}
