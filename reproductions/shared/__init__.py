# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Settings, results and tables that all reproductions share, and the processes that compute them."""
