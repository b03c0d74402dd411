"""
Who asks, and whether they may: users, rights and tokens.

    gate.py                                the whole of it for one server: a request is allowed, or refused
    credentials.py                         bearer tokens and client certificates, to users
    impersonation.py                       the headers that ask to be somebody else
    attributes.py                          what a request does, in the words that rights are given in
    rules.py, rbac.py                      one rule; all bindings, indexed by whom they are for
    escalation.py, owner_references.py     admission: nobody gives away what they do not have
    aggregation.py, default_roles.py       ClusterRoles made of others, and those that every cluster has
    signing.py, account_tokens.py          JWTs; those of service accounts
    token_requests.py, issuer.py           where these come from, and what others check them by
    accounts.py                            each namespace's account and CA (what pods get of them: `builtins/`)
    reviews.py, access_reviews.py          the kinds that only answer questions; asked.py reads their bodies

The order is the API server's: authentication, impersonation, authorisation, and only then is the body looked at. All of
it is plain computation on the store's objects, so it never waits.
"""
