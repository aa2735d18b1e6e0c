"""Short explanations of the technical terms on the pages, in the words of docs/glossary.md."""

from types import MappingProxyType

GLOSSARY = MappingProxyType(
    {
        "allotment": (
            "A limit on what all jobs of one analyst may use of a dataset's budget. A shared allotment is "
            "only an upper limit, and analysts compete for the same budget. A reserved allotment is set aside "
            "for its analyst."
        ),
        "auditor": "A role. An auditor reads ledgers and receipts, but no models.",
        "bounds": (
            "The declared smallest and largest value of a number column. Noise depends on them, so they are "
            "public and must not be read off the data."
        ),
        "budget": (
            "The epsilon and delta that all results about a dataset may use together. The steward sets it at "
            "registration and can only raise it after the first charge."
        ),
        "confidence interval": (
            "A range that contains a value in 95 of 100 releases. Most ranges cover the noise only, for the value "
            "of the stored data. Evaluations, descriptions of groups and regression tables state ranges that also "
            "cover the sampling of the records."
        ),
        "dataset": (
            "A table that a steward uploaded once, stored in the coding of its declaration. Each dataset has "
            "a budget and a ledger of its own, or shares both with its family."
        ),
        "delta": (
            "The probability with which the guarantee of epsilon may fail. Delta must be far below 1/n for n records."
        ),
        "epsilon": (
            "The privacy loss. Any outcome is at most e^epsilon times as likely on one of two neighboring "
            "datasets as on the other, up to delta."
        ),
        "evaluation": (
            "A private measurement of how well a released model predicts the holdout set. The budget of the "
            "holdout set pays for it."
        ),
        "filter": (
            "The rule that decides whether a charge still fits a budget. The rule stays valid when analysts "
            "choose each question after seeing earlier answers. The default filter is gdp_rdp, and a budget "
            "with delta 0 needs pure."
        ),
        "forecast": (
            "The accuracy to expect at several epsilons. The service trains models on public synthetic rows, with "
            "the same noise as a real job. A forecast reads no data and charges nothing."
        ),
        "grant": (
            "A steward's permission for one analyst to see a dataset and to spend on it. Without a grant, the "
            "dataset looks as if it did not exist."
        ),
        "holdout set": (
            "A part of the records that takes no part in any training, chosen at registration. The holdout "
            "set is a dataset of its own that only answers evaluations."
        ),
        "ledger": (
            "The append-only list of everything that happened to a budget. Each entry contains the hash of "
            "the previous entry, so anyone who kept a ledger head notices a later change."
        ),
        "ledger head": (
            "The number and hash of a ledger's newest entry, written SEQUENCE:HASH. Anyone who kept a head "
            "can later check that no earlier entry was changed or removed."
        ),
        "method": (
            "The algorithm that trains a model, such as adaptive_gd or dp_gd. auto chooses one from public facts."
        ),
        "neighbors": (
            "Two datasets that differ in one record. The guarantee compares results on neighbors. Under "
            "replace_one, another record replaces the record, and under zero_out a blank does."
        ),
        "noise multiplier": (
            "The standard deviation of the noise (for Laplace noise, its scale), divided by the most that one "
            "record can add to the answer. "
            "This number has no unit and determines the privacy cost of a Gaussian answer. A quote also states "
            "the standard deviation in units of the answer (noise std)."
        ),
        "preparation": (
            "The step that turns stored rows into the vectors on which a method trains. The choices are "
            "private (standardized at a cost), profile (standardized by a released profile, free), and "
            "declared (by the bounds alone)."
        ),
        "profile": (
            "A private summary of all columns of a dataset, with counts, means, spread and quantiles. The "
            "profile is charged once, and then every analyst with a grant can read it. Later jobs can "
            "standardize by it for free."
        ),
        "public sample": (
            "Rows of a public file that a steward attaches to a dataset. Forecasts and twins draw from it. "
            "The steward vouches that the rows are public."
        ),
        "public twin": (
            "Synthetic rows with the declared columns, drawn from public facts only. Use them to try code "
            "before any budget is spent."
        ),
        "quote": (
            "The price of a job, with its share of the budget, its noise, and what remains. A quote reads no "
            "data and charges nothing."
        ),
        "receipt": (
            "A signed document about one released result. The receipt states the request, the noise, the "
            "epsilon and the ledger head. Anyone can verify it without the server."
        ),
        "share": (
            "The fraction of a budget that a job, an analyst or all jobs use. Shares add up, while epsilons do not."
        ),
        "slope limit": (
            "A limit on the derivative of each record's loss, as a fraction of its largest possible value. A "
            "lower limit needs less noise and adds some bias."
        ),
        "standardization": (
            "Centering and scaling each column by its mean and standard deviation. By default, means and "
            "deviations are estimated with noise, and the price of the job includes them."
        ),
        "statistic": (
            "A private count, cross table, mean, quantile, covariance or description of groups. Statistics are "
            "charged and receipted like models."
        ),
        "tuning": (
            "A job that trains several candidates and releases the best one. Its price is lower than that of "
            "separate jobs."
        ),
        "unit": (
            "The thing that the budget protects, either one row or one person with up to max_rows rows. The "
            "unit is chosen at registration for good."
        ),
    }
)
