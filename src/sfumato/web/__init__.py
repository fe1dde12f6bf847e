"""The console: pages for people over the same calls as /v1. Rendered here, with a little script that only adds to them.

console     the routes of the pages, and what all of them have in common
signing     who is signed in: cookies, origins, what a form must come from
sign_in_page, provider_sign_in
            the page on which people sign in, and the way to the identity provider and back
rendering   templates, styles and scripts
pages       what each page shows
asking      the form and the SQL of a question
words       amounts, questions and time left, in words
owner_pages the pages of owners and auditors, with spending_pages, key_pages, policy_page and guarantee_page
"""
