"""Sessions for other privacy libraries: each module reserves budget on a dataset and records a library's answers.

    from purse.integrations import opacus

    engine = opacus.reserve(client, "people", data_loader=loader, epochs=3, privacy={"epsilon": 1.0})

Every module works in the same order. `reserve` opens a session, so the whole plan is charged before anything runs. Each
answer is recorded before its noise is drawn. If the server refuses to record an answer, the library's step raises and
does not happen. No module sends data, and none returns an answer that the library did not compute.

A session states what the analyst's program reports. The service observes neither the library nor its noise
(docs/trust.md).
"""
