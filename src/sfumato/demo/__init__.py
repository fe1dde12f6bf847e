"""The product on generated people: a service, an analyst's questions, a report and a published table."""
